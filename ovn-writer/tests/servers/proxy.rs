//! A proxy in front of a real server that can drop all traffic.

use std::path::PathBuf;

use tests::workdir::Workdir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy},
    net::{
        UnixListener, UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::JoinHandle,
};

pub(crate) struct Proxy {
    path: PathBuf,
    forwarding: watch::Sender<bool>,
    task: JoinHandle<()>,
    _workdir: Workdir,
}

impl Proxy {
    pub(crate) fn start(target: PathBuf) -> Self {
        let workdir = Workdir::new();
        let path = workdir.join("proxy.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let (forwarding, gate) = watch::channel(true);
        let task = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let Ok(server) = UnixStream::connect(&target).await else {
                    continue;
                };
                tokio::spawn(serve(client, server, gate.clone()));
            }
        });
        Self {
            path,
            forwarding,
            task,
            _workdir: workdir,
        }
    }

    pub(crate) fn remote(&self) -> String {
        format!("unix:{}", self.path.display())
    }

    /// Stops or resumes all traffic, including the ends of connections.
    pub(crate) fn forward(&self, on: bool) {
        self.forwarding.send_replace(on);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(client: UnixStream, server: UnixStream, gate: watch::Receiver<bool>) {
    let (client_reads, client_writes) = client.into_split();
    let (server_reads, server_writes) = server.into_split();
    tokio::select! {
        () = forward(client_reads, server_writes, gate.clone()) => {}
        () = forward(server_reads, client_writes, gate) => {}
    }
}

async fn forward(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut gate: watch::Receiver<bool>) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = from.read(&mut buffer).await.unwrap_or(0);
        drop(gate.wait_for(|on| *on).await);
        if read == 0 || to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

/// Accepts connections, reads from them, and never answers.
pub(crate) async fn swallow(listener: tokio::net::TcpListener) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::spawn(async move { copy(&mut stream, &mut tokio::io::sink()).await });
    }
}
