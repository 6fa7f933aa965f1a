//! A proxy in front of the API server that can block all requests.

use std::{net::SocketAddr, path::PathBuf};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use futures_util::StreamExt;
use http::StatusCode;
use kube::Client;
use serde_json::json;
use tests::{kube::ApiServer, workdir::Workdir};
use tokio::{net::TcpListener, sync::watch, task::JoinSet};

/// A proxy on a port of 127.0.0.1, without TLS, until it is dropped. Its clients have the rights of its own client.
pub(crate) struct Proxy {
    address: SocketAddr,
    hangs: watch::Sender<bool>,
    _task: JoinSet<()>,
}

#[derive(Clone)]
struct Upstream {
    client: Client,
    hangs: watch::Receiver<bool>,
}

impl Proxy {
    /// Its clients have all rights.
    pub(crate) async fn start(server: &ApiServer) -> Self {
        let client = server.client().await;
        let (hangs, seen) = watch::channel(false);
        let upstream = Upstream {
            client,
            hangs: seen,
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(pass).with_state(upstream);
        let mut task = JoinSet::new();
        task.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            address,
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

    /// Blocks all traffic, requests and watch events, or unblocks it.
    pub(crate) fn hang(&self, yes: bool) {
        self.hangs.send_replace(yes);
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
