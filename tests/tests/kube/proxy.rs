//! A proxy in front of the API server that refuses what it is told to, or lets nothing through.

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
use http::{Method, StatusCode, header::RETRY_AFTER};
use kube::Client;
use serde_json::json;
use tests::{kube::ApiServer, workdir::Workdir};
use tokio::{net::TcpListener, sync::watch, task::JoinSet};

/// A proxy on a port of 127.0.0.1, without TLS, for as long as the value lives. Who asks through it may do everything.
pub(crate) struct Proxy {
    address: SocketAddr,
    script: Arc<Mutex<Script>>,
    hangs: watch::Sender<bool>,
    _task: JoinSet<()>,
}

/// What it says instead of the API server to what would change something.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) code: u16,
    /// In seconds.
    pub(crate) retry_after: Option<u32>,
}

#[derive(Default)]
struct Script {
    refusal: Option<Refusal>,
    refused: Vec<Asked>,
}

/// A request that was refused.
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
    pub(crate) async fn start(server: &ApiServer) -> Self {
        let script = Arc::<Mutex<Script>>::default();
        let (hangs, seen) = watch::channel(false);
        let upstream = Upstream {
            client: server.client().await,
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

    /// A kubeconfig that leads here.
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

    /// Refuses from now on.
    pub(crate) fn refuse(&self, refusal: Refusal) {
        self.script.lock().unwrap().refusal = Some(refusal);
    }

    /// From now on nothing passes, neither requests nor what a watch tells; or all does again.
    pub(crate) fn hang(&self, yes: bool) {
        self.hangs.send_replace(yes);
    }

    /// Lets all pass from now on, and returns what was refused, in its order.
    pub(crate) fn pass(&self) -> Vec<Asked> {
        let mut script = self.script.lock().unwrap();
        script.refusal = None;
        std::mem::take(&mut script.refused)
    }

    /// What was refused so far.
    pub(crate) fn refused(&self) -> Vec<Asked> {
        self.script.lock().unwrap().refused.clone()
    }
}

async fn pass(State(upstream): State<Upstream>, request: Request) -> Response {
    let mut hangs = upstream.hangs.clone();
    drop(hangs.wait_for(|hangs| !hangs).await);
    if let Some(refusal) = upstream.script.lock().unwrap().refusal_of(&request) {
        let code = StatusCode::from_u16(refusal.code).unwrap();
        // As the API server says it: in words, not as a Status.
        let mut response = (code, "too many requests, please try again later").into_response();
        if let Some(seconds) = refusal.retry_after {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        return response;
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

impl Script {
    fn refusal_of(&mut self, request: &Request) -> Option<Refusal> {
        let refusal = self.refusal.clone()?;
        if request.method() == Method::GET {
            return None;
        }
        self.refused.push(Asked {
            at: Instant::now(),
            path: request.uri().path().to_owned(),
        });
        Some(refusal)
    }
}
