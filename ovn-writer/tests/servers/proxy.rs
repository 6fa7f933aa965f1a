//! A stand-in for what cannot be had: an older server, and a network that swallows everything. In front of a real server.

use std::path::PathBuf;

use serde_json::{Value, json};
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

/// A proxy for any number of connections.
pub(crate) struct Proxy {
    path: PathBuf,
    forwarding: watch::Sender<bool>,
    cuts: watch::Sender<()>,
    task: JoinHandle<()>,
    _workdir: Workdir,
}

impl Proxy {
    /// Stands in front of the server at `target`, which then does not know the methods of `unknown`, nor the databases among
    /// them.
    pub(crate) fn start(target: PathBuf, unknown: &'static [&'static str]) -> Self {
        let workdir = Workdir::new();
        let path = workdir.join("proxy.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let (forwarding, gate) = watch::channel(true);
        let (cuts, mut cut) = watch::channel(());
        let task = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let Ok(server) = UnixStream::connect(&target).await else {
                    continue;
                };
                let serving = serve(client, server, unknown, gate.clone());
                cut.mark_unchanged();
                let mut cut = cut.clone();
                tokio::spawn(async move {
                    tokio::select! {
                        () = serving => {}
                        _ = cut.changed() => {}
                    }
                });
            }
        });
        Self {
            path,
            forwarding,
            cuts,
            task,
            _workdir: workdir,
        }
    }

    pub(crate) fn remote(&self) -> String {
        format!("unix:{}", self.path.display())
    }

    /// Ends all connections.
    pub(crate) fn cut(&self) {
        self.cuts.send_replace(());
    }

    /// From now on nothing passes, nor does any end of a connection; or everything does again.
    pub(crate) fn forward(&self, on: bool) {
        self.forwarding.send_replace(on);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    client: UnixStream,
    server: UnixStream,
    unknown: &[&str],
    gate: watch::Receiver<bool>,
) {
    let (client_reads, client_writes) = client.into_split();
    let (server_reads, server_writes) = server.into_split();
    // Replies of the proxy stand between those of the server.
    let (own, mut others) = tokio::net::UnixStream::pair().unwrap();
    let (_, own) = own.into_split();
    tokio::select! {
        () = requests(client_reads, server_writes, own, unknown, gate.clone()) => {}
        () = replies(server_reads, &mut others, client_writes, gate) => {}
    }
}

async fn requests(
    mut client: OwnedReadHalf,
    mut server: OwnedWriteHalf,
    mut own: OwnedWriteHalf,
    unknown: &[&str],
    mut gate: watch::Receiver<bool>,
) {
    let mut buffer = Vec::new();
    while let Some(request) = next_message(&mut client, &mut buffer).await {
        drop(gate.wait_for(|on| *on).await);
        let named = |what: &Value| what.as_str().is_some_and(|name| unknown.contains(&name));
        let error = if named(&request["method"]) {
            json!("unknown method")
        } else if named(&request["params"][0]) {
            json!({"error": "unknown database", "details": request["params"][0]})
        } else {
            if server
                .write_all(request.to_string().as_bytes())
                .await
                .is_err()
            {
                return;
            }
            continue;
        };
        let reply = json!({"id": request["id"], "result": null, "error": error});
        let _closed = own.write_all(reply.to_string().as_bytes()).await;
    }
}

async fn replies(
    mut server: OwnedReadHalf,
    own: &mut UnixStream,
    mut client: OwnedWriteHalf,
    mut gate: watch::Receiver<bool>,
) {
    let (mut first, mut second) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        // The server's bytes may end in the middle of a message; the proxy answers only when the server has nothing to say.
        let bytes = tokio::select! {
            biased;
            read = server.read(&mut first) => first.get(..read.unwrap_or(0)).unwrap(),
            read = own.read(&mut second) => second.get(..read.unwrap_or(0)).unwrap(),
        };
        drop(gate.wait_for(|on| *on).await);
        if bytes.is_empty() || client.write_all(bytes).await.is_err() {
            return;
        }
    }
}

/// The next message of a client, of which `buffer` may hold the beginning.
pub(crate) async fn next_message(
    stream: &mut (impl AsyncReadExt + Unpin),
    buffer: &mut Vec<u8>,
) -> Option<Value> {
    loop {
        let mut messages = serde_json::Deserializer::from_slice(buffer).into_iter();
        if let Some(Ok(message)) = messages.next() {
            let end = messages.byte_offset();
            buffer.drain(..end);
            return Some(message);
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}

/// Takes connections and reads what comes, and says nothing.
pub(crate) async fn swallow(listener: tokio::net::TcpListener) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::spawn(async move { copy(&mut stream, &mut tokio::io::sink()).await });
    }
}
