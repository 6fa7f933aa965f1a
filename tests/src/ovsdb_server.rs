//! A real `ovsdb-server` with any database file and any options.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::{ovn, process::Process, wait::eventually};

/// The file of OVN's northbound schema, for [`create`].
pub const NORTHBOUND: &str = "ovn/ovn-nb.ovsschema";

/// A server of the file `NAME.db`, on the socket `NAME.sock`.
#[derive(Debug)]
pub struct OvsdbServer {
    pub process: Process,
    pub folder: PathBuf,
    name: String,
    options: Vec<String>,
}

impl OvsdbServer {
    /// Starts a server of an existing database.
    pub async fn start(folder: &Path, name: &str, options: &[String]) -> Self {
        let server = Self {
            process: serve(folder, name, options),
            folder: folder.to_owned(),
            name: name.to_owned(),
            options: options.to_vec(),
        };
        server.answers().await;
        server
    }

    /// Kills it, and starts it again.
    pub async fn restart(&mut self) {
        self.process.kill();
        self.process = serve(&self.folder, &self.name, &self.options);
        self.answers().await;
    }

    pub fn remote(&self) -> String {
        format!("unix:{}", self.path("sock").display())
    }

    /// A file of it.
    pub fn path(&self, extension: &str) -> PathBuf {
        self.folder.join(format!("{}.{extension}", self.name))
    }

    /// Sends it a command by its control socket.
    ///
    /// # Errors
    /// Its error.
    pub fn control(&self, args: &[&str]) -> Result<String, String> {
        let mut command = Command::new(ovn::program("ovs-appctl"));
        run(command.arg("-t").arg(self.path("ctl")).args(args))
    }

    /// The port that it logged last.
    pub async fn port(&self) -> u16 {
        eventually("the server logs its port", async || {
            let log = self.process.log();
            let (_, port) = log.rsplit_once("listening on port ").ok_or(log.clone())?;
            let port = port.split_whitespace().next().unwrap_or_default();
            port.parse().map_err(|error| format!("{port}: {error}"))
        })
        .await
    }

    async fn answers(&self) {
        eventually("the server answers", async || self.control(&["version"])).await;
    }
}

fn serve(folder: &Path, name: &str, options: &[String]) -> Process {
    let path = |extension: &str| {
        let file = folder.join(format!("{name}.{extension}"));
        file.display().to_string()
    };
    let own = [
        path("db"),
        format!("--remote=punix:{}", path("sock")),
        format!("--unixctl={}", path("ctl")),
        "--no-chdir".to_owned(),
    ];
    let args = own.into_iter().chain(options.iter().cloned());
    let program = ovn::program("ovsdb-server");
    Process::start(folder, name, &program, args, &[])
}

/// Creates the file `NAME.db` of a standalone database with a schema of OVN's or Open vSwitch's package.
pub fn create(folder: &Path, name: &str, schema: &str) {
    let database = folder.join(format!("{name}.db")).display().to_string();
    tool(&[
        "create",
        &database,
        &ovn::shared(schema).display().to_string(),
    ]);
}

/// Runs `ovsdb-tool`.
///
/// # Panics
/// If it fails.
pub fn tool(args: &[&str]) {
    run(Command::new(ovn::program("ovsdb-tool")).args(args)).unwrap();
}

/// The output of a command.
///
/// # Errors
/// Its error output.
pub fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(text(&output.stderr)),
    }
}
