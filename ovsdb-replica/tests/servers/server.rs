//! A real `ovsdb-server` with a small database.

use std::{
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::json;
use tempfile::TempDir;

const DEADLINE: Duration = Duration::from_secs(30);

/// The name of the database.
pub(crate) const DATABASE: &str = "OVN_Northbound";

/// A server that is killed on drop.
pub(crate) struct Server {
    process: Child,
    folder: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _gone = self.process.kill();
        let _gone = self.process.wait();
    }
}

impl Server {
    /// Makes a database, serves it, and returns once it can be read.
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let columns = json!({
            "name": {"type": "string"},
            "addresses": {"type": {"key": "string", "min": 0, "max": "unlimited"}},
        });
        let table = json!({"columns": columns, "indexes": [["name"]], "isRoot": true});
        let schema =
            json!({"name": DATABASE, "version": "1.0.0", "tables": {"Address_Set": table}});
        std::fs::write(path("schema"), schema.to_string()).unwrap();
        assert!(ran("ovsdb-tool", &["create", &path("db"), &path("schema")]));
        let process = Command::new("ovsdb-server")
            .arg(format!("--remote=punix:{}", path("sock")))
            .arg(format!("--unixctl={}", path("ctl")))
            .arg(path("db"))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { process, folder };
        let start = Instant::now();
        let remote = server.remote();
        while !ran("ovsdb-client", &["get-schema-version", &remote, DATABASE]) {
            assert!(start.elapsed() < DEADLINE, "not served within {DEADLINE:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    pub(crate) fn remote(&self) -> String {
        format!("unix:{}", self.folder.path().join("sock").display())
    }
}

fn ran(program: &str, args: &[&str]) -> bool {
    let mut command = Command::new(program);
    let command = command
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().unwrap().success()
}

/// The result of the future; panics if that takes too long.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    let ended = tokio::time::timeout(DEADLINE, future).await;
    ended.unwrap_or_else(|_| panic!("not within {DEADLINE:?}"))
}
