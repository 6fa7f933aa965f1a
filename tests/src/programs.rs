//! The project's own two programs, built by `cargo build`.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::Duration,
};

use serde_json::Value;
use tokio::{process::Command, time::timeout};

use crate::{admin::Admin, process::Process, wait::eventually};

/// The time-out for the error of a program that cannot start.
const REFUSAL: Duration = Duration::from_secs(30);

/// A running `collector` or `ovn-writer`.
#[derive(Debug)]
pub struct Program {
    name: &'static str,
    folder: PathBuf,
    args: Vec<String>,
    environment: Vec<(&'static str, String)>,
    process: Process,
    admin: Admin,
}

impl Program {
    /// Starts it in the folder and returns when its admin server listens, on a free port.
    pub async fn start(folder: &Path, name: &'static str, args: Vec<String>) -> Self {
        Self::start_with(folder, name, args, Vec::new()).await
    }

    /// [`Program::start`] with environment variables.
    pub async fn start_with(
        folder: &Path,
        name: &'static str,
        args: Vec<String>,
        environment: Vec<(&'static str, String)>,
    ) -> Self {
        let mut process = Self::spawn(folder, name, &args, &environment);
        let admin = find_admin(name, &mut process).await;
        Self {
            name,
            folder: folder.to_owned(),
            args,
            environment,
            process,
            admin,
        }
    }

    /// Kills it if it still runs, and starts it again with the same flags.
    pub async fn restart(&mut self) {
        self.process.kill();
        self.process = Self::spawn(&self.folder, self.name, &self.args, &self.environment);
        self.admin = find_admin(self.name, &mut self.process).await;
    }

    /// Waits until `/readyz` succeeds.
    pub async fn ready(&self) {
        eventually(&format!("{} is ready", self.name), async || {
            self.admin.ready().await
        })
        .await;
    }

    pub fn admin(&self) -> Admin {
        self.admin
    }

    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// The messages that it has logged since its start, one JSON object each.
    pub fn messages(&self) -> Vec<Value> {
        messages(&self.process.log())
    }

    /// Waits until it has logged where it is inspected since its start, and returns the URL.
    pub async fn inspect_url(&self) -> String {
        let what = format!("{} is inspected", self.name);
        eventually(&what, async || {
            let log = self.process.log();
            address_in(&log, "inspect listening").ok_or(log)
        })
        .await
    }

    /// The URL of its status page; waits like [`Self::inspect_url`].
    pub async fn page_url(&self) -> String {
        self.inspect_url().await.replacen("tcp", "http", 1)
    }

    /// Waits until a metric is at least `least`; see [`Admin::metric`].
    pub async fn counts(&self, metric: &str, labels: &[&str], least: f64) {
        eventually(
            &format!("{} has {metric} {labels:?}", self.name),
            async || match self.admin.metric(metric, labels).await {
                Ok(value) if value >= least => Ok(()),
                Ok(value) => Err(format!("{value} of {least}")),
                Err(error) => Err(error.to_string()),
            },
        )
        .await;
    }

    fn spawn(
        folder: &Path,
        name: &str,
        args: &[String],
        environment: &[(&str, String)],
    ) -> Process {
        let fixed = ["--admin", "127.0.0.1:0", "--log-format", "json"];
        let args = fixed.into_iter().chain(args.iter().map(String::as_str));
        // Addresses leave by their times alone, unless a test has a flag for more.
        let strict = ("COLLECTOR_RETAIN", "0".to_owned());
        let environment: Vec<_> = environment
            .iter()
            .cloned()
            .chain(quiet())
            .chain([strict])
            .collect();
        Process::start(folder, name, &program(name), args, &environment)
    }
}

/// Disables the machine's own name servers: a test that needs look-ups names its servers by the flag, which wins.
fn quiet() -> [(&'static str, String); 1] {
    [("COLLECTOR_RESOLVER", "none".to_owned())]
}

/// Runs a program that must end by itself, such as one with an invalid flag.
///
/// # Panics
/// If it still runs after half a minute.
pub async fn run(name: &str, args: &[&str]) -> Output {
    let mut command = Command::new(program(name));
    let ended = command
        .args(args)
        .envs(quiet())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = timeout(REFUSAL, ended).await;
    let output = output.unwrap_or_else(|_| panic!("{name} {args:?} still runs after {REFUSAL:?}"));
    output.expect("it can be started")
}

/// A program built by `cargo build`, beside the current test.
///
/// # Panics
/// If it does not exist.
pub fn program(name: &str) -> PathBuf {
    let this = env::current_exe().expect("the path of this program");
    // target/debug/deps/TEST, or target/debug/demo.
    let found = this
        .ancestors()
        .skip(1)
        .take(2)
        .map(|folder| folder.join(name));
    let found = found.into_iter().find(|path| path.is_file());
    found.unwrap_or_else(|| {
        panic!("there is no {name} beside {}: run `cargo build --workspace`, or scripts/test, which does", this.display())
    })
}

/// A tool that scripts/setup built.
///
/// # Panics
/// If it does not exist.
pub fn tool(name: &str) -> PathBuf {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools");
    let path = tools.join(name);
    assert!(
        path.is_file(),
        "there is no {}: run scripts/setup",
        path.display()
    );
    path.canonicalize().expect("an existing path")
}

/// The Python with the packages of `tests/tools/peers`, if `scripts/setup --peers` made it.
pub fn peers_python() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools/peers");
    Some(folder.join("bin/python")).filter(|path| path.exists())
}

async fn find_admin(name: &str, process: &mut Process) -> Admin {
    eventually(
        &format!("{name} listens on its admin address"),
        async || {
            let log = process.log();
            if let Some(status) = process.ended() {
                panic!("{name} has ended with {status}: {log}");
            }
            address_in(&log, "admin listening")
                .and_then(|it| it.parse().ok())
                .map(Admin::new)
                .ok_or(log)
        },
    )
    .await
}

/// The field `addr` of the first message of this text.
fn address_in(log: &str, message: &str) -> Option<String> {
    let messages = messages(log);
    let found = messages.iter().find(|it| it["message"] == message)?;
    found["addr"].as_str().map(str::to_owned)
}

fn messages(log: &str) -> Vec<Value> {
    log.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}
