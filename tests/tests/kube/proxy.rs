//! A proxy in front of the API server that can refuse writes or block all requests.

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Instant,
};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use futures_util::StreamExt;
use http::{Method, StatusCode};
use kube::Client;
use serde_json::json;
use tests::{kube::ApiServer, workdir::Workdir};
use tokio::{net::TcpListener, sync::watch, task::JoinSet};

/// A proxy on a port of 127.0.0.1, without TLS, until it is dropped. Its clients have the rights of its own client.
pub(crate) struct Proxy {
    address: SocketAddr,
    script: Arc<Mutex<Script>>,
    hangs: watch::Sender<bool>,
    _task: JoinSet<()>,
}

#[derive(Default)]
struct Script {
    /// The answer to writes, instead of the API server's.
    refusal: Option<StatusCode>,
    refused: Vec<Asked>,
}

/// A refused write.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) at: Instant,
    pub(crate) path: String,
}

#[derive(Clone)]
struct Upstream {
    client: Client,
    script: Arc<Mutex<Script>>,
    hangs: watch::Receiver<bool>,
}

impl Proxy {
    /// Its clients have all rights.
    pub(crate) async fn start(server: &ApiServer) -> Self {
        Self::of(server.client().await).await
    }

    pub(crate) async fn of(client: Client) -> Self {
        let script = Arc::<Mutex<Script>>::default();
        let (hangs, seen) = watch::channel(false);
        let upstream = Upstream {
            client,
            script: Arc::clone(&script),
            hangs: seen,
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(pass).with_state(upstream);
        let mut task = JoinSet::new();
        task.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            address,
            script,
            hangs,
            _task: task,
        }
    }

    /// A kubeconfig that leads to the proxy.
    pub(crate) fn kubeconfig(&self, workdir: &Workdir) -> PathBuf {
        let path = workdir.join("proxy.kubeconfig");
        let text = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
            "clusters": [{ "name": "test", "cluster": { "server": format!("http://{}", self.address) } }],
            "users": [{ "name": "test", "user": {} }],
        });
        std::fs::write(&path, text.to_string()).unwrap();
        path
    }

    /// Refuses writes with this code from now on.
    pub(crate) fn refuse(&self, code: u16) {
        self.script.lock().unwrap().refusal = Some(StatusCode::from_u16(code).unwrap());
    }

    /// Blocks all traffic, requests and watch events, or unblocks it.
    pub(crate) fn hang(&self, yes: bool) {
        self.hangs.send_replace(yes);
    }

    /// Passes everything from now on.
    pub(crate) fn pass(&self) {
        self.script.lock().unwrap().refusal = None;
    }

    /// The refused requests so far, in order.
    pub(crate) fn refused(&self) -> Vec<Asked> {
        self.script.lock().unwrap().refused.clone()
    }
}

async fn pass(State(upstream): State<Upstream>, request: Request) -> Response {
    let mut hangs = upstream.hangs.clone();
    drop(hangs.wait_for(|hangs| !hangs).await);
    if request.method() != Method::GET
        && let Some(code) = upstream.refuse(request.uri().path())
    {
        // The API server also sends a plain text here, not a Status.
        return (code, "please try again later").into_response();
    }
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let request = http::Request::from_parts(parts, kube::client::Body::from(body.to_vec()));
    match upstream.client.send(request).await {
        Ok(answer) => answer.map(|body| {
            let parts = Body::new(body).into_data_stream();
            Body::from_stream(parts.then(move |part| {
                let mut hangs = hangs.clone();
                async move {
                    drop(hangs.wait_for(|hangs| !hangs).await);
                    part
                }
            }))
        }),
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}

impl Upstream {
    /// The refusal of a write, which is recorded.
    fn refuse(&self, path: &str) -> Option<StatusCode> {
        let script = &mut self.script.lock().unwrap();
        let refusal = script.refusal?;
        script.refused.push(Asked {
            at: Instant::now(),
            path: path.to_owned(),
        });
        Some(refusal)
    }
}
