use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::*;

struct Server {
    addr: SocketAddr,
    health: Health,
}

fn answers(text: &str, code: u16) -> bool {
    text.starts_with(&format!("HTTP/1.1 {code} "))
}

impl Server {
    async fn start() -> Self {
        let admin = Admin::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let (addr, health) = (admin.local_addr(), Health::new());
        let exporter = Exporter::new(PrometheusBuilder::new().build_recorder().handle());
        tokio::spawn(admin.serve(health.clone(), exporter, CancellationToken::new()));
        Self { addr, health }
    }

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
    let server = Server::start().await;
    assert!(answers(&server.get("/livez").await, 200));
    assert!(answers(&server.get("/readyz").await, 200));

    let store = server.health.gate("store", "not read yet");
    let northbound = server.health.gate("northbound", "not connected");
    store.ready();
    let answer = server.get("/readyz").await;
    assert!(answers(&answer, 503), "{answer}");
    assert!(
        answer.ends_with("not ready\nstore: ok\nnorthbound: not connected\n"),
        "{answer}"
    );

    northbound.clone().ready();
    let answer = server.get("/readyz").await;
    assert!(answers(&answer, 200), "{answer}");

    store.impaired("two files do not decode");
    let answer = server.get("/readyz").await;
    assert!(answers(&answer, 200), "{answer}");
    let line = "\nready\nstore: ok, but two files do not decode\n";
    assert!(answer.contains(line), "{answer}");

    store.not_ready("the folder is gone");
    let answer = server.get("/readyz").await;
    assert!(answer.contains("store: the folder is gone\n"), "{answer}");
    assert!(answers(&server.get("/livez").await, 200));
}
