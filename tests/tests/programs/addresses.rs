//! `egress list` and `egress watch`: the addresses of all programs, now and as they come.

use std::{process::Stdio, time::Duration};

use proto::api::Family;
use serde_json::Value;
use tests::{
    northbound::Northbound,
    programs::{self, Program},
    wait::eventually,
    workdir::Workdir,
    world::{Setup, World, start_ovn_writer},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader, Lines},
    process::{Child, Command},
    time::timeout,
};

const NAME: &str = "www.example.com.";
const WILDCARD: &str = "*.apps.example.com.";

/// How long a line may take. Machines are slow when all tests run at once.
const PATIENCE: Duration = Duration::from_secs(60);

/// A collector, and the ovn-writers of two nodes.
struct Nodes {
    world: World,
    another: Program,
    /// The flags that name the programs.
    flags: Vec<String>,
    _northbound: Northbound,
    _workdir: Workdir,
    _folder: tempfile::TempDir,
}

impl Nodes {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let collector = format!("unix://{}", folder.path().join("inspect.sock").display());
        let world = World::start(Setup {
            zone: "www IN A 192.0.2.10\n*.apps IN A 192.0.2.30",
            allow: &[NAME, WILDCARD],
            collector: &["--inspect", &collector],
            ..Setup::default()
        })
        .await;
        let workdir = Workdir::new();
        let northbound = Northbound::start(workdir.path()).await;
        let another = start_ovn_writer(&workdir, &world.store).await;
        another.ready().await;
        let flags = vec![
            format!("--collector={collector}"),
            format!("--ovn-writer={}", inspect(&world.ovn_writer)),
            format!("--ovn-writer={}", inspect(&another)),
        ];
        Self {
            world,
            another,
            flags,
            _northbound: northbound,
            _workdir: workdir,
            _folder: folder,
        }
    }

    fn args<'a>(&'a self, args: &[&'a str]) -> Vec<&'a str> {
        let flags = self.flags.iter().map(String::as_str);
        args.iter().copied().chain(flags).collect()
    }

    /// The exit status, and the output.
    async fn run(&self, args: &[&str]) -> (Option<i32>, String) {
        let output = programs::run("egress", &self.args(args)).await;
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.code(), text)
    }
}

/// The URL at which an ovn-writer answers.
fn inspect(writer: &Program) -> String {
    let mut messages = writer.messages().into_iter();
    let listening = messages.find(|it| it["message"] == "inspect listening");
    let address = listening.unwrap()["addr"].as_str().unwrap().to_owned();
    format!("tcp://{}", address.trim_start_matches("tcp://"))
}

#[tokio::test]
async fn a_list_has_each_address_with_its_origin_and_the_nodes_that_have_it() {
    let it = Nodes::start().await;
    it.world.expect_flow(NAME, Family::V4, "192.0.2.10").await;
    let found = "x.apps.example.com.";
    it.world
        .expect_flow_through(WILDCARD, found, Family::V4, "192.0.2.30")
        .await;
    let wide = eventually("both nodes have both", async || {
        match it.run(&["list", "--namespace=team", "-o", "wide"]).await {
            (Some(0), text) if text.matches(" 2/2 ").count() == 2 => Ok(text),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let line = |start: &str| {
        let mut lines = wide.lines();
        lines.find(|it| it.starts_with(start)).unwrap().to_owned()
    };
    assert!(wide.starts_with("NAME "), "{wide}");
    for (name, parts) in [
        (NAME, ["  192.0.2.10  ", "  process ", "  team  "]),
        (
            found,
            [
                "  192.0.2.30  ",
                "  *.apps.example.com.  ",
                "  ovn-kubernetes/dns-",
            ],
        ),
    ] {
        for part in parts {
            assert!(line(name).contains(part), "{part}: {wide}");
        }
    }
    assert!(!wide.contains("fence"), "{wide}");

    // A wildcard selects names under a rule's wildcard, too.
    for (args, expected) in [
        (&["list", "--name=X.apps"][..], vec![found]),
        (&["list", "--name=*.example.com"], vec![NAME, found]),
        (&["list", "--namespace=nobody"], vec![]),
    ] {
        let (status, text) = it.run(args).await;
        assert_eq!(status, Some(0), "{text}");
        let names = text.lines().filter(|line| line.contains(" 192.0.2."));
        let mut names: Vec<_> = names.filter_map(|it| it.split(' ').next()).collect();
        names.sort_unstable();
        assert_eq!(names, expected, "{text}");
    }

    let (_, json) = it.run(&["list", "--name=www", "-o", "json"]).await;
    let (_, yaml) = it.run(&["list", "--name=www", "-o", "yaml"]).await;
    let json: Value = serde_json::from_str(&json).unwrap();
    let yaml: Value = serde_saphyr::from_str(&yaml).unwrap();
    for list in [json, yaml] {
        assert_eq!(list["isLeader"], true);
        let name = &list["names"][0];
        assert_eq!(name["addresses"][0]["address"], "192.0.2.10");
        assert_eq!(name["namespaces"][0], "team");
        let sets = name["sets"].as_array().unwrap();
        let v4 = sets.iter().find(|set| set["family"] == "v4").unwrap();
        assert_eq!(v4["nodes"].as_array().unwrap().len(), 2);
    }

    // A program without an answer is named.
    let gone = "--ovn-writer=unix:///nowhere.sock";
    let (status, text) = it.run(&["list", gone]).await;
    assert_eq!(status, Some(2), "{text}");
    let line = "? the ovn-writer unix:///nowhere.sock does not answer";
    assert!(text.contains(line) && text.contains("192.0.2.10"), "{text}");
}

/// A running `egress watch`.
pub(crate) struct Watch {
    _child: Child,
    pub(crate) out: Lines<BufReader<tokio::process::ChildStdout>>,
    notes: Lines<BufReader<tokio::process::ChildStderr>>,
}

impl Watch {
    /// Watches the programs that these flags name.
    pub(crate) fn start(flags: &[String]) -> Self {
        let mut child = Command::new(programs::program("egress"))
            .args(["watch", "-o", "json"])
            .args(flags)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self {
            out: BufReader::new(child.stdout.take().unwrap()).lines(),
            notes: BufReader::new(child.stderr.take().unwrap()).lines(),
            _child: child,
        }
    }

    /// Waits for so many notes of this kind.
    pub(crate) async fn notes(&mut self, words: &str, count: usize) {
        for _ in 0..count {
            line_with(&mut self.notes, words).await;
        }
    }
}

/// The next line with these words.
pub(crate) async fn line_with<R: AsyncRead + Unpin>(
    lines: &mut Lines<BufReader<R>>,
    words: &str,
) -> String {
    let found = timeout(PATIENCE, async {
        loop {
            let line = lines.next_line().await.unwrap();
            let line = line.expect("the program ended");
            if line.contains(words) {
                return line;
            }
        }
    });
    found.await.unwrap_or_else(|_| panic!("no {words}"))
}

#[tokio::test]
async fn a_watch_joins_answer_status_and_rows_and_outlives_programs() {
    let mut it = Nodes::start().await;
    let mut watch = Watch::start(&it.flags);
    watch.notes("watching the ", 3).await;
    it.world.expect_flow(NAME, Family::V4, "192.0.2.10").await;
    let line = line_with(&mut watch.out, NAME).await;
    let told: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(told["isComplete"], true, "{line}");
    assert_eq!(
        (&told["rule"], &told["address"]),
        (&NAME.into(), &"192.0.2.10".into())
    );
    assert_eq!(told["namespaces"][0], "team");
    assert!(told["answeredAt"].is_string(), "{line}");
    let object = it.world.store.object(NAME).unwrap().metadata;
    let key = format!("ovn-kubernetes/{}", object.name.unwrap());
    assert_eq!(told["object"], key);
    assert_eq!(told["rows"].as_object().unwrap().len(), 2, "{line}");
    for leg in ["read", "status", "row", "all"] {
        assert!(told["milliseconds"][leg].is_i64(), "{leg}: {line}");
    }

    // Programs go and return.
    it.world.collector.process().kill();
    watch.notes("the collector unix://", 1).await;
    it.world.collector.restart().await;
    watch.notes("watching the collector", 1).await;
    it.another.process().kill();
    watch.notes("the ovn-writer tcp://", 1).await;
    it.world.coredns.restart().await;
    it.world
        .expect_flow_through(WILDCARD, "x.apps.example.com.", Family::V4, "192.0.2.30")
        .await;
    let line = line_with(&mut watch.out, "x.apps.example.com.").await;
    let told: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        (&told["rule"], &told["isComplete"]),
        (&WILDCARD.into(), &true.into())
    );
    assert_eq!(told["rows"].as_object().unwrap().len(), 1, "{line}");
}
