use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
};

use super::*;

struct Server {
    addr: SocketAddr,
    health: Health,
    token: CancellationToken,
    task: JoinHandle<anyhow::Result<()>>,
}

async fn server() -> Server {
    let admin = Admin::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let addr = admin.local_addr();
    let (health, token) = (Health::new(), CancellationToken::new());
    let recorder = PrometheusBuilder::new().build_recorder();
    metrics::with_local_recorder(&recorder, || metrics::counter!("seen_total").increment(3));
    let exporter = Exporter::new(recorder.handle());
    let task = tokio::spawn(admin.serve(health.clone(), exporter, token.clone()));
    Server {
        addr,
        health,
        token,
        task,
    }
}

impl Server {
    async fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.addr).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }
}

#[tokio::test]
async fn a_program_is_ready_when_every_gate_is() {
    let server = server().await;
    assert!(server.get("/livez").await.starts_with("HTTP/1.1 200 "));
    assert!(server.get("/readyz").await.starts_with("HTTP/1.1 200 "));

    let store = server.health.gate("store", "not read yet");
    let northbound = server.health.gate("northbound", "not connected");
    store.ready();
    let answer = server.get("/readyz").await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(
        answer.ends_with("not ready\nstore: ok\nnorthbound: not connected\n"),
        "{answer}"
    );

    northbound.clone().ready();
    let answer = server.get("/readyz").await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");

    store.impaired("two files do not decode");
    let answer = server.get("/readyz").await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let line = "\nready\nstore: ok, but two files do not decode\n";
    assert!(answer.contains(line), "{answer}");

    store.not_ready("the folder is gone");
    let answer = server.get("/readyz").await;
    assert!(answer.contains("store: the folder is gone\n"), "{answer}");
    assert!(server.get("/livez").await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn metrics_are_in_the_prometheus_text_format() {
    let answer = server().await.get("/metrics").await;
    assert!(
        answer.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"),
        "{answer}"
    );
    assert!(answer.contains("\nseen_total 3\n"), "{answer}");
}

#[tokio::test]
async fn an_address_in_use_is_one_clear_error() {
    let first = Admin::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let error = Admin::bind(first.local_addr()).await.err().unwrap();
    let text = format!("{error:#}");
    assert!(
        text.contains(&first.local_addr().to_string()) && text.contains("in use"),
        "{text}"
    );
}

#[tokio::test]
async fn a_client_that_never_finishes_does_not_hold_the_server_up() {
    let server = server().await;
    let mut stream = TcpStream::connect(server.addr).await.unwrap();
    stream.write_all(b"GET /livez HTTP/1.1\r\n").await.unwrap();
    server.token.cancel();
    time::timeout(Duration::from_secs(5), server.task)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
}
