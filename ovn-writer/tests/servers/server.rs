//! A real `ovsdb-server` with any database file and any options.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use tests::{ovn, process::Process, wait::eventually};

/// A server of the file `NAME.db`, on the socket `NAME.sock`.
pub(crate) struct Server {
    pub(crate) process: Process,
    folder: PathBuf,
    name: String,
    options: Vec<String>,
}

impl Server {
    /// Starts a server of an existing database.
    pub(crate) async fn start(folder: &Path, name: &str, options: &[String]) -> Self {
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
    pub(crate) async fn restart(&mut self) {
        self.process.kill();
        self.process = serve(&self.folder, &self.name, &self.options);
        self.answers().await;
    }

    pub(crate) fn remote(&self) -> String {
        format!("unix:{}", self.path("sock").display())
    }

    pub(crate) fn path(&self, extension: &str) -> PathBuf {
        self.folder.join(format!("{}.{extension}", self.name))
    }

    /// Sends it a command by its control socket.
    pub(crate) fn control(&self, args: &[&str]) -> Result<String, String> {
        control(&self.path("ctl"), args)
    }

    pub(crate) async fn port(&self) -> u16 {
        port(&self.process).await
    }

    async fn answers(&self) {
        eventually("the server answers", async || self.control(&["version"])).await;
    }
}

fn serve(folder: &Path, name: &str, options: &[String]) -> Process {
    let path = |extension: &str| {
        folder
            .join(format!("{name}.{extension}"))
            .display()
            .to_string()
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

pub(crate) fn control(socket: &Path, args: &[&str]) -> Result<String, String> {
    let mut command = Command::new(ovn::program("ovs-appctl"));
    run(command.arg("-t").arg(socket).args(args))
}

/// The port that a server logged last.
pub(crate) async fn port(process: &Process) -> u16 {
    eventually("the server logs its port", async || {
        let log = process.log();
        let (_, port) = log.rsplit_once("listening on port ").ok_or(log.clone())?;
        let port = port.split_whitespace().next().unwrap_or_default();
        port.parse().map_err(|error| format!("{port}: {error}"))
    })
    .await
}

/// Creates the file `NAME.db` of a standalone database with OVN's northbound schema.
pub(crate) fn create(folder: &Path, name: &str) {
    let database = folder.join(format!("{name}.db"));
    tool(&[
        "create",
        &database.display().to_string(),
        &schema().display().to_string(),
    ]);
}

/// The file of the northbound schema.
pub(crate) fn schema() -> PathBuf {
    ovn::shared("ovn/ovn-nb.ovsschema")
}

pub(crate) fn tool(args: &[&str]) {
    run(Command::new(ovn::program("ovsdb-tool")).args(args)).unwrap();
}

pub(crate) fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}
