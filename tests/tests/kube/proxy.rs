//! A proxy in front of the API server that can end all watches and block all requests.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use futures_util::StreamExt;
use http::StatusCode;
use kube::{Client, Config};
use runtime::cluster::{Cluster, KubeStore};
use tests::kube::ApiServer;
use tokio::{net::TcpListener, sync::watch, task::JoinSet};

/// A proxy on a port of 127.0.0.1, without TLS, until it is dropped. Its clients have the rights of its own client.
pub(crate) struct Proxy {
    address: SocketAddr,
    hangs: watch::Sender<bool>,
    gone: Arc<AtomicUsize>,
    _task: JoinSet<()>,
}

#[derive(Clone)]
struct Upstream {
    client: Client,
    hangs: watch::Receiver<bool>,
    gone: Arc<AtomicUsize>,
}

impl Proxy {
    /// Its clients have all rights.
    pub(crate) async fn start(server: &ApiServer) -> Self {
        let client = server.client().await;
        let (hangs, seen) = watch::channel(false);
        let gone = Arc::<AtomicUsize>::default();
        let upstream = Upstream {
            client,
            hangs: seen,
            gone: Arc::clone(&gone),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(pass).with_state(upstream);
        let mut task = JoinSet::new();
        task.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            address,
            hangs,
            gone,
            _task: task,
        }
    }

    /// A store behind the proxy.
    pub(crate) fn store(&self) -> KubeStore {
        let config = Config::new(format!("http://{}", self.address).parse().unwrap());
        KubeStore::new(Cluster::of(config, "tests").unwrap())
    }

    /// Ends all watches and blocks all requests, or unblocks them.
    pub(crate) fn hang(&self, yes: bool) {
        self.hangs.send_replace(yes);
    }

    /// How often the server answered that a version is gone, with status 410.
    pub(crate) fn gone(&self) -> usize {
        self.gone.load(Relaxed)
    }
}

async fn pass(State(upstream): State<Upstream>, request: Request) -> Response {
    let mut hangs = upstream.hangs.clone();
    drop(hangs.wait_for(|hangs| !hangs).await);
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let request = http::Request::from_parts(parts, kube::client::Body::from(body.to_vec()));
    match upstream.client.send(request).await {
        Ok(answer) => answer.map(|body| {
            let parts = Body::new(body).into_data_stream().inspect(move |part| {
                // An event of type ERROR has it: the answer to a watch begins with 200.
                let text = part.as_deref().map(String::from_utf8_lossy);
                if text.is_ok_and(|text| text.contains(r#""code":410"#)) {
                    upstream.gone.fetch_add(1, Relaxed);
                }
            });
            Body::from_stream(parts.take_until(async move {
                drop(hangs.wait_for(|hangs| *hangs).await);
            }))
        }),
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}
