//! The API server's etcd: backup and restore.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
};

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
