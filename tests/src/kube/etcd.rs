//! The API server's etcd: backup, restore and compaction.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
};

use http::Request;
use kube::{Client, Config};
use serde_json::{Value, json};

use super::{ApiServer, Kept, keep};

/// The path of the backup, in the server's folder.
const BACKUP: &str = "etcd-backup";

impl ApiServer {
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

    /// Makes etcd forget all versions but the newest, and restarts the API server, whose cache begins with that one.
    pub async fn compact(&mut self) {
        let config = Config::new(
            format!("http://{}", self.etcd_address)
                .parse()
                .expect("a URL"),
        );
        let etcd = Client::try_from(config).expect("a client");
        let ask = async |path: &str, body: Value| -> Value {
            let request = Request::post(path).body(body.to_string().into_bytes());
            let answer = etcd.request(request.expect("a request")).await;
            answer.expect("an answer of etcd")
        };
        let found = ask("/v3/kv/range", json!({ "key": "AA==" })).await;
        let newest = json!({ "revision": found["header"]["revision"], "physical": true });
        ask("/v3/kv/compaction", newest).await;
        self.stop();
        self.start_again().await;
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
