//! The TCP connection for probing a DNS server: open as long as the server keeps it, with many
//! probes in flight.

use std::{collections::VecDeque, io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::{Buf, BytesMut};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::tcp::{OwnedReadHalf, OwnedWriteHalf},
    sync::mpsc,
    time::{Instant, sleep, timeout, timeout_at},
};
use tracing::debug;

use super::{plan::Probe, probe::Template};
use crate::matching::query_origin::OwnQueries;

/// The most unanswered probes. A server that is behind gets no more.
const IN_FLIGHT: usize = 16;

/// The time-out of a connection, a write or an answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The wait after a connection failed.
const BACK_OFF: Duration = Duration::from_secs(1);

/// The length before a message over TCP (RFC 1035 section 4.2.2).
const LENGTH: usize = 2;

/// The octets of an answer that are decoded: the id and the flags.
const DECODED: usize = 4;

/// A server's answer to a probe.
#[derive(Clone, Copy, Debug)]
pub struct ProbeAnswer {
    pub probe: Probe,
    pub rcode: u8,
}

#[derive(Debug)]
pub struct Prober {
    pub server: SocketAddr,
    /// The queries by the index of their name.
    pub templates: Arc<[Template]>,
    /// The record of the collector's own sockets.
    pub own: OwnQueries,
    /// Each time the probes for all names.
    pub probes: mpsc::Receiver<Vec<Probe>>,
    pub answers: mpsc::Sender<ProbeAnswer>,
}

impl Prober {
    /// Sends probes until the channel closes. Failures are retried.
    pub async fn run(mut self) {
        while let Some(first) = self.probes.recv().await {
            let ran = match self.connect().await {
                Ok(mut connection) => connection.run(&mut self, first).await,
                Err(error) => Err(error),
            };
            if let Err(error) = ran {
                debug!(server = %self.server, %error, "cannot probe");
                sleep(BACK_OFF).await;
            }
        }
    }

    async fn connect(&self) -> io::Result<Connection> {
        let stream = timeout(TIMEOUT, self.own.connect(self.server)).await??;
        let (read, write) = stream.into_split();
        Ok(Connection {
            read,
            write,
            received: BytesMut::new(),
            in_flight: VecDeque::new(),
            next_id: fastrand::u16(..),
        })
    }
}

struct Connection {
    read: OwnedReadHalf,
    write: OwnedWriteHalf,
    received: BytesMut,
    /// By message id.
    in_flight: VecDeque<(u16, Probe, Instant)>,
    next_id: u16,
}

impl Connection {
    /// Sends probes until the server closes the connection with no answer pending, or the channel
    /// closes.
    async fn run(&mut self, prober: &mut Prober, first: Vec<Probe>) -> io::Result<()> {
        self.send(&first, &prober.templates).await?;
        loop {
            let is_behind = self.in_flight.len() >= IN_FLIGHT;
            let oldest = self.in_flight.front().map(|(_, _, sent)| *sent);
            let deadline = oldest.map_or_else(|| Instant::now() + TIMEOUT, |sent| sent + TIMEOUT);
            tokio::select! {
                probes = prober.probes.recv(), if !is_behind => match probes {
                    Some(probes) => self.send(&probes, &prober.templates).await?,
                    None => return Ok(()),
                },
                read = timeout_at(deadline, self.read.read_buf(&mut self.received)) => match read {
                    Err(elapsed) if oldest.is_some() => return Err(elapsed.into()),
                    Err(_) => {}
                    Ok(read) => {
                        if read? == 0 {
                            return match oldest {
                                None => Ok(()),
                                Some(_) => Err(io::ErrorKind::UnexpectedEof.into()),
                            };
                        }
                        self.take_answers(&prober.answers);
                    }
                },
            }
        }
    }

    async fn send(&mut self, probes: &[Probe], templates: &[Template]) -> io::Result<()> {
        let mut messages = Vec::new();
        for probe in probes {
            let (_, name) = probe.block;
            if let Some(template) = templates.get(name) {
                let id = self.next_id;
                self.next_id = id.wrapping_add(1);
                template.write(id, &probe.nonce, &mut messages);
                self.in_flight.push_back((id, *probe, Instant::now()));
            }
        }
        timeout(TIMEOUT, self.write.write_all(&messages)).await?
    }

    /// Removes whole answers from the received bytes, so at most one answer and one read are
    /// buffered.
    fn take_answers(&mut self, answers: &mpsc::Sender<ProbeAnswer>) {
        let mut rest = &self.received[..];
        while let Some((length, behind)) = rest.split_first_chunk::<LENGTH>() {
            let length = usize::from(u16::from_be_bytes(*length));
            let Some((message, behind)) = behind.split_at_checked(length) else {
                break;
            };
            rest = behind;
            let Some([high, low, _, flags]) = message.first_chunk::<DECODED>() else {
                continue;
            };
            let id = u16::from_be_bytes([*high, *low]);
            let mut ids = self.in_flight.iter().map(|(id, ..)| *id);
            let Some(at) = ids.position(|known| known == id) else {
                continue;
            };
            if let Some((_, probe, _)) = self.in_flight.remove(at) {
                let rcode = flags & 0xf;
                // Most answers carry no news, and the first probe is repeated if its answer is lost
                // here.
                let _is_full = answers.try_send(ProbeAnswer { probe, rcode });
            }
        }
        let used = self.received.len() - rest.len();
        self.received.advance(used);
    }
}
