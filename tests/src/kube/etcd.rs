//! The API server's etcd: pause, backup, restore, and its stored size.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
};

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, api::ListParams};
use rustix::process::Signal;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{ApiServer, Kept, keep};

/// The path of the backup, in the server's folder.
const BACKUP: &str = "etcd-backup";

impl ApiServer {
    /// Stops its etcd (SIGSTOP): the server answers only from its cache.
    pub fn pause_etcd(&self) {
        self.etcd.process.signal(Signal::STOP);
    }

    /// Compacts etcd up to now, so that a watch cannot continue from before.
    pub async fn compact(&self) {
        let namespaces: Api<Namespace> = Api::all(self.client().await);
        let now = namespaces.list(&ListParams::default()).await;
        let version = now.expect("namespaces").metadata.resource_version;
        let body = json!({ "revision": version, "physical": true }).to_string();
        let request = format!(
            "POST /v3/kv/compaction HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.ask_etcd(&request).await;
    }

    /// The bytes that its etcd stores, with the history: this counts against the quota.
    pub async fn stored_bytes(&self) -> f64 {
        let answer = self.ask_etcd("GET /metrics HTTP/1.0\r\n\r\n").await;
        let value = |line: &str| {
            let (name, value) = line.split_once(' ')?;
            (name == "etcd_mvcc_db_total_size_in_bytes").then(|| value.parse().ok())?
        };
        answer.lines().find_map(value).expect("the metric")
    }

    async fn ask_etcd(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.etcd_address).await.expect("etcd");
        stream
            .write_all(request.as_bytes())
            .await
            .expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        assert!(answer.contains(" 200 OK"), "{answer}");
        answer
    }

    /// Copies the data of etcd, and restarts both processes.
    pub async fn back_up(&mut self) {
        self.stop();
        self.etcd.process.kill();
        let folder = self.folder();
        let copied = Command::new("cp")
            .arg("-r")
            .arg(folder.join(data_folder(self.etcd_address)))
            .arg(folder.join(BACKUP))
            .status();
        assert!(copied.expect("cp").success());
        self.start_both().await;
    }

    /// Restores the backup and restarts both: the server's version goes back.
    pub async fn restore(&mut self) {
        self.stop();
        self.etcd.process.kill();
        let data = self.folder().join(data_folder(self.etcd_address));
        fs::remove_dir_all(&data).expect("the folder of etcd");
        fs::rename(self.folder().join(BACKUP), data).expect("a backup");
        self.start_both().await;
    }

    async fn start_both(&mut self) {
        self.etcd = start(self.workdir.path(), self.etcd_address, self.etcd_peer);
        self.start_again().await;
    }
}

pub(super) fn start(folder: &Path, client: SocketAddr, peer: SocketAddr) -> Kept {
    let args = vec![
        format!("--data-dir={}", data_folder(client)),
        format!("--listen-client-urls=http://{client}"),
        format!("--advertise-client-urls=http://{client}"),
        format!("--listen-peer-urls=http://{peer}"),
        format!("--initial-advertise-peer-urls=http://{peer}"),
        format!("--initial-cluster=default=http://{peer}"),
    ];
    keep(folder, "etcd", PathBuf::from("etcd"), args)
}

/// A folder for each attempt to start: the data of another attempt have other addresses.
fn data_folder(client: SocketAddr) -> String {
    format!("etcd-{}", client.port())
}
