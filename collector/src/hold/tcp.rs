//! Queries over TCP, pipelined: their answers may come out of order (RFC 7766 section 6.2.1.1).

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use proto::dns::Query;
use tokio::{
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{Mutex, Semaphore},
    time::{sleep, timeout},
};
use tokio_util::{
    codec::{FramedRead, FramedWrite, LengthDelimitedCodec},
    sync::CancellationToken,
};
use tracing::{debug, warn};

use super::{forwarder::Forwarder, upstream::Transport};

/// The most connections. CoreDNS keeps one for each query over TCP that it has in flight.
const CONNECTIONS: usize = 256;

/// The most queries of a connection in flight; the next ones wait in its socket.
const PIPELINED: usize = 64;

/// The longest time without a query, and for a client to take an answer. CoreDNS closes a connection after 10 s.
const IDLE: Duration = Duration::from_secs(15);

/// The pause after a failed accept, as without file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Two octets of length before each message (RFC 1035 section 4.2.2).
pub(super) fn framing() -> LengthDelimitedCodec {
    LengthDelimitedCodec::builder()
        .length_field_type::<u16>()
        .new_codec()
}

/// Accepts connections until `closing`; then each ends with its queries in flight.
pub(super) async fn serve(
    listener: TcpListener,
    forwarder: &Arc<Forwarder>,
    closing: &CancellationToken,
) {
    let free = Arc::new(Semaphore::new(CONNECTIONS));
    while let Some(accepted) = closing.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, _)) => {
                // Without a permit the connection is closed at once.
                if let Ok(permit) = Arc::clone(&free).try_acquire_owned() {
                    let (forwarder, closing) = (Arc::clone(forwarder), closing.clone());
                    tokio::spawn(async move {
                        connection(stream, &forwarder, &closing).await;
                        drop(permit);
                    });
                }
            }
            Err(error) => {
                warn!(%error, "cannot accept a connection of --hold-listen");
                sleep(PAUSE).await;
            }
        }
    }
}

type Queries = FramedRead<OwnedReadHalf, LengthDelimitedCodec>;
type Answers = Arc<Mutex<FramedWrite<OwnedWriteHalf, LengthDelimitedCodec>>>;

async fn connection(stream: TcpStream, forwarder: &Arc<Forwarder>, closing: &CancellationToken) {
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "answers over TCP may be delayed");
    }
    let (reader, writer) = stream.into_split();
    let mut queries = Queries::new(reader, framing());
    let answers: Answers = Arc::new(Mutex::new(FramedWrite::new(writer, framing())));
    let free = Arc::new(Semaphore::new(PIPELINED));
    // It ends at the end of the stream, and for a client that is idle, or sends what is no message.
    while let Ok(place) = Arc::clone(&free).acquire_owned().await
        && let Some(Ok(Some(Ok(message)))) = closing
            .run_until_cancelled(timeout(IDLE, queries.next()))
            .await
        && let Some(query) = Query::new(&message)
    {
        let Some(permit) = forwarder.begin() else {
            continue;
        };
        let (forwarder, answers) = (Arc::clone(forwarder), Arc::clone(&answers));
        tokio::spawn(async move {
            if let Some(reply) = forwarder.answer(&query, Transport::Tcp).await {
                let send = async { answers.lock().await.send(Bytes::from(reply)).await };
                if !matches!(timeout(IDLE, send).await, Ok(Ok(()))) {
                    debug!("an answer over TCP is not sent");
                }
            }
            drop((permit, place));
        });
    }
}
