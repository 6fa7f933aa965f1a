//! A proxy in front of the API server that can refuse, delay or block requests, and records them.

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
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
use tokio::{net::TcpListener, sync::watch, task::JoinSet, time::sleep};

/// A proxy on a port of 127.0.0.1, without TLS, until it is dropped. Its clients have the rights of its own client.
pub(crate) struct Proxy {
    address: SocketAddr,
    script: Arc<Mutex<Script>>,
    hangs: watch::Sender<bool>,
    _task: JoinSet<()>,
}

/// The answer to writes, instead of the API server's.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) code: u16,
    /// In seconds.
    pub(crate) retry_after: Option<u32>,
}

#[derive(Default)]
struct Script {
    refusal: Option<Refusal>,
    delay: Duration,
    spares_leases: bool,
    asked: Vec<Asked>,
}

/// A write request.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) at: Instant,
    pub(crate) path: String,
    /// The code of the answer, if there was one.
    pub(crate) code: Option<u16>,
    is_refused: bool,
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

    /// Refuses writes from now on.
    pub(crate) fn refuse(&self, refusal: Refusal) {
        self.script.lock().unwrap().refusal = Some(refusal);
    }

    /// Delays writes from now on.
    pub(crate) fn delay(&self, delay: Duration) {
        self.script.lock().unwrap().delay = delay;
    }

    /// Exempts Leases from delays and refusals, or not.
    pub(crate) fn spare_leases(&self, yes: bool) {
        self.script.lock().unwrap().spares_leases = yes;
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
        let mut asked = self.asked();
        asked.retain(|asked| asked.is_refused);
        asked
    }

    /// The write requests so far, in order.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.script.lock().unwrap().asked.clone()
    }

    /// The status writes among them.
    pub(crate) fn status_writes(&self) -> Vec<Asked> {
        let is_of_status =
            |path: &str| path.contains("/dnsnameresolvers/") && path.ends_with("/status");
        let mut asked = self.asked();
        asked.retain(|asked| is_of_status(&asked.path));
        asked
    }
}

async fn pass(State(upstream): State<Upstream>, request: Request) -> Response {
    let mut hangs = upstream.hangs.clone();
    drop(hangs.wait_for(|hangs| !hangs).await);
    let changes = request.method() != Method::GET;
    let is_spared = !changes || upstream.spares(request.uri().path());
    let refusal = upstream.refusal().filter(|_| !is_spared);
    let number = changes.then(|| upstream.note(request.uri().path(), refusal.is_some()));
    if let Some(refusal) = refusal {
        let code = StatusCode::from_u16(refusal.code).unwrap();
        upstream.answers(number, code);
        // The API server also sends a plain text here, not a Status.
        let mut response = (code, "too many requests, please try again later").into_response();
        if let Some(seconds) = refusal.retry_after {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        return response;
    }
    if !is_spared {
        sleep(upstream.delay()).await;
    }
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let request = http::Request::from_parts(parts, kube::client::Body::from(body.to_vec()));
    let response = match upstream.client.send(request).await {
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
    };
    upstream.answers(number, response.status());
    response
}

impl Upstream {
    fn refusal(&self) -> Option<Refusal> {
        self.script.lock().unwrap().refusal.clone()
    }

    fn delay(&self) -> Duration {
        self.script.lock().unwrap().delay
    }

    fn spares(&self, path: &str) -> bool {
        path.contains("/leases") && self.script.lock().unwrap().spares_leases
    }

    /// Returns the number of the request.
    fn note(&self, path: &str, is_refused: bool) -> usize {
        let asked = &mut self.script.lock().unwrap().asked;
        asked.push(Asked {
            at: Instant::now(),
            path: path.to_owned(),
            code: None,
            is_refused,
        });
        asked.len() - 1
    }

    fn answers(&self, number: Option<usize>, code: StatusCode) {
        if let Some(number) = number {
            self.script.lock().unwrap().asked[number].code = Some(code.as_u16());
        }
    }
}
