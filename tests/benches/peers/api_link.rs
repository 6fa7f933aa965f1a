//! A link to the API server with a delay. It counts bytes.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tests::kube::ApiServer;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc::unbounded_channel,
    task::JoinSet,
    time::{Instant, sleep_until},
};

/// A port of 127.0.0.1, until it is dropped.
pub(crate) struct ApiLink {
    address: SocketAddr,
    /// Of both directions.
    bytes: Arc<AtomicU64>,
    _task: JoinSet<()>,
}

impl ApiLink {
    /// `delay` is that of a request and its answer together.
    pub(crate) async fn start(server: &ApiServer, delay: Duration) -> Self {
        let uri = server.config().await.cluster_url;
        let target: SocketAddr = uri.authority().unwrap().as_str().parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let bytes = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&bytes);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut pumps = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                while pumps.try_join_next().is_some() {}
                let server = TcpStream::connect(target).await.unwrap();
                for stream in [&client, &server] {
                    stream.set_nodelay(true).unwrap();
                }
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                pumps.spawn(pump(
                    from_client,
                    to_server,
                    delay / 2,
                    Arc::clone(&counted),
                ));
                pumps.spawn(pump(
                    from_server,
                    to_client,
                    delay / 2,
                    Arc::clone(&counted),
                ));
            }
        });
        Self {
            address,
            bytes,
            _task: task,
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// A kubeconfig that leads through the link.
    pub(crate) async fn kubeconfig(&self, server: &ApiServer, folder: &Path) -> PathBuf {
        let uri = server.config().await.cluster_url;
        let text = fs::read_to_string(server.kubeconfig()).unwrap();
        let direct = uri.authority().unwrap().as_str();
        let path = folder.join("link.kubeconfig");
        fs::write(&path, text.replace(direct, &self.address.to_string())).unwrap();
        path
    }
}

/// Passes bytes on, each part after the delay.
async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    delay: Duration,
    bytes: Arc<AtomicU64>,
) {
    let (sender, mut parts) = unbounded_channel::<(Instant, Vec<u8>)>();
    let read = async move {
        let mut buffer = vec![0; 64 << 10];
        // An error or the end of one side ends the other.
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            bytes.fetch_add(length as u64, Ordering::Relaxed);
            if sender
                .send((Instant::now() + delay, buffer[..length].to_vec()))
                .is_err()
            {
                break;
            }
        }
    };
    let write = async move {
        while let Some((due, part)) = parts.recv().await {
            if !delay.is_zero() {
                sleep_until(due).await;
            }
            if to.write_all(&part).await.is_err() {
                break;
            }
        }
    };
    tokio::join!(read, write);
}
