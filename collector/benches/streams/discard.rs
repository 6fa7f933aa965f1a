//! A reader that performs the handshake and discards the rest.

use std::path::Path;

use tests::dnstap::{Control, DNSTAP, control};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream},
    task::JoinSet,
};

/// Reads every stream at the socket until the task is dropped.
pub(crate) fn start(socket: &Path) -> JoinSet<()> {
    let listener = UnixListener::bind(socket).unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut streams = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            streams.spawn(discard(stream));
        }
    });
    tasks
}

async fn discard(mut stream: UnixStream) {
    let mut buffer = vec![0; 128 << 10];
    let mut ready = vec![0; control(Control::Ready, Some(DNSTAP)).len()];
    if stream.read_exact(&mut ready).await.is_err() {
        return;
    }
    let accept = control(Control::Accept, Some(DNSTAP));
    stream.write_all(&accept).await.unwrap();
    let stop = control(Control::Stop, None);
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        if buffer[..read].ends_with(&stop) {
            // The writer may be gone.
            let _gone = stream.write_all(&control(Control::Finish, None)).await;
            return;
        }
    }
}
