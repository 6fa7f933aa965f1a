//! The commands for people, as the demo runs and names them.

use std::{process::Stdio, time::Duration};

use tests::programs::{Program, program};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
    time::timeout,
};

use crate::stage::Stage;

/// How long a program may take to say something, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A question of an administrator.
pub(crate) enum Task<'a> {
    /// Why the name has addresses in the store, or has none.
    ExplainName(&'a str),
    /// Why the address is in a set, or is in none.
    ExplainAddress(&'a str),
    /// Whether the sets are as the store says.
    Verify,
}

impl Task<'_> {
    /// The command line of a task.
    fn command(&self, stage: &Stage) -> Vec<String> {
        let world = &stage.world;
        let url = |flag: &str, program| [flag.to_owned(), inspect(program)];
        let words = |words: &[&str]| words.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let (collector, writer) = (
            url("--collector", &world.collector),
            url("--ovn-writer", &world.ovn_writer),
        );
        match self {
            Self::ExplainName(name) => {
                [words(&["egress", "explain", name]), collector.into()].concat()
            }
            Self::ExplainAddress(address) => {
                [words(&["egress", "explain", address]), writer.into()].concat()
            }
            Self::Verify => [words(&["egress", "verify"]), writer.into()].concat(),
        }
    }

    /// The command line for another terminal.
    pub(crate) fn shown(&self, stage: &Stage) -> String {
        format!("target/debug/{}", self.command(stage).join(" "))
    }

    /// Runs it, and prints its first lines.
    pub(crate) async fn show(&self, stage: &Stage, most: usize) {
        let command = self.command(stage);
        // The flags say only where to ask.
        let is_word = |arg: &&String| !arg.starts_with("--");
        let words = command.iter().skip(1).take_while(is_word);
        let words: Vec<_> = words.map(String::as_str).collect();
        let places = command.get(words.len() + 1..).unwrap_or_default();
        egress(&words, places, most).await;
    }
}

/// Runs `egress` with flags that say where to ask, and prints its first lines.
pub(crate) async fn egress(words: &[&str], places: &[String], most: usize) {
    let mut command = Command::new(program("egress"));
    let output = command.args(words).args(places).output().await;
    let output = output.expect("it runs");
    println!("  $ egress {}", words.join(" "));
    let said = String::from_utf8_lossy(&output.stdout);
    for line in said.lines().take(most) {
        println!("    {line}");
    }
}

/// Runs an ovn-writer with `--dry-run` until it would add the address to a set of the name, and prints that line.
pub(crate) async fn dry_run(stage: &Stage, name: &str, address: &str) {
    let world = &stage.world;
    let mut child = Command::new(program("ovn-writer"))
        .args(["--dry-run", "--admin", "127.0.0.1:0"])
        .args(["--store", &world.store.address()])
        .args(["--nb", &world.northbound.remote()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("it runs");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let found = async {
        while let Some(line) = lines.next_line().await.expect("its output") {
            if line.trim().starts_with(name) && line.contains(&format!("+{address}")) {
                return line.trim().to_owned();
            }
        }
        panic!("the ovn-writer ended")
    };
    let found = timeout(PATIENCE, found).await.expect("it says so in time");
    println!("  $ ovn-writer --dry-run\n    {found}");
    child.kill().await.expect("it ends");
}

/// The URL of the status page of a program.
pub(crate) fn page(program: &Program) -> String {
    inspect(program).replacen("tcp", "http", 1)
}

/// The URL of the state of a program.
pub(crate) fn inspect(program: &Program) -> String {
    let messages = program.messages();
    let mut messages = messages.iter();
    let listening = messages.find(|it| it["message"] == "inspect listening");
    let address = listening.and_then(|it| it["addr"].as_str());
    address.expect("it listens").to_owned()
}
