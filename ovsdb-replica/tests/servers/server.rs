//! Real `ovsdb-server`s with a small database.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::json;
use tempfile::TempDir;

const DEADLINE: Duration = Duration::from_secs(30);

/// A server that is killed on drop.
pub(crate) struct Server {
    process: Child,
    socket: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _gone = self.process.kill();
        let _gone = self.process.wait();
    }
}

impl Server {
    /// Serves a database file of this folder, with these options, and returns once the database can be read.
    pub(crate) fn start(folder: &Path, name: &str, options: &[String]) -> Self {
        let socket = folder.join(format!("{name}.sock"));
        let process = Command::new("ovsdb-server")
            .arg(format!("--remote=punix:{}", socket.display()))
            .arg(format!(
                "--unixctl={}",
                folder.join(format!("{name}.ctl")).display()
            ))
            .arg(format!(
                "--log-file={}",
                folder.join(format!("{name}.log")).display()
            ))
            .args(options)
            .arg(folder.join(format!("{name}.db")))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { process, socket };
        let remote = server.remote();
        until("the server serves its database", || {
            ran(Command::new("ovsdb-client").args(["get-schema-version", &remote, DATABASE]))
        });
        server
    }

    pub(crate) fn remote(&self) -> String {
        format!("unix:{}", self.socket.display())
    }
}

/// The name of the database.
pub(crate) const DATABASE: &str = "OVN_Northbound";

/// Writes the schema, and returns its path.
pub(crate) fn schema(folder: &Path) -> PathBuf {
    let set = |kind: &str| json!({"type": {"key": kind, "min": 0, "max": "unlimited"}});
    let columns = json!({
        "name": {"type": "string"}, "addresses": set("string"), "version": {"type": "integer"},
    });
    let table = json!({"columns": columns, "indexes": [["name"]], "isRoot": true});
    let schema = json!({"name": DATABASE, "version": "1.0.0", "tables": {"Address_Set": table}});
    let path = folder.join("schema.json");
    std::fs::write(&path, schema.to_string()).unwrap();
    path
}

/// A server of a database of its own.
pub(crate) fn standalone(options: &[String]) -> (TempDir, Server) {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("nb.db");
    let mut tool = Command::new("ovsdb-tool");
    assert!(ran(tool
        .arg("create")
        .arg(&database)
        .arg(schema(folder.path()))));
    let server = Server::start(folder.path(), "nb", options);
    (folder, server)
}

pub(crate) fn ran(command: &mut Command) -> bool {
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().unwrap().success()
}

pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(
            start.elapsed() < DEADLINE,
            "not within {DEADLINE:?}: {what}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The result of the future; panics if that takes too long.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    let ended = tokio::time::timeout(DEADLINE, future).await;
    ended.unwrap_or_else(|_| panic!("not within {DEADLINE:?}"))
}
