//! `egress learn`: the names that clients asked for, as rules.

use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, SocketAddr},
    ops::Range,
};

use hickory_proto::rr::RecordType;
use proto::api::EgressFirewall;
use rustix::process::Signal;
use tests::{
    dns::ask_over,
    process::Process,
    programs::{self, program},
    wait::eventually,
    world::{Setup, World},
};
use tokio::net::UdpSocket;

const ZONE: &str =
    "www IN A 192.0.2.10\napi IN A 192.0.2.20\n_odd IN A 192.0.2.30\nother IN A 192.0.2.40";

/// The clients of the window, and one of another namespace.
const CLIENTS: [Ipv4Addr; 2] = [Ipv4Addr::new(127, 0, 1, 1), Ipv4Addr::new(127, 0, 1, 2)];
const NETWORK: &str = "127.0.1.0/24";
const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 2, 1);

/// Names of `fence.test`, which has an address for each. [`World::settle`] has the first ones.
const MANY: Range<u8> = 50..250;

async fn world(socket: &str) -> World {
    let inspect = format!("unix://{socket}");
    World::start(Setup {
        zone: ZONE,
        allow: &["www.example.com."],
        collector: &["--inspect", &inspect],
        ..Setup::default()
    })
    .await
}

/// Asks like a pod with this address.
async fn ask(server: SocketAddr, client: Ipv4Addr, names: &[String]) {
    let socket = UdpSocket::bind((client, 0)).await.unwrap();
    socket.connect(server).await.unwrap();
    for name in names {
        eventually(&format!("a reply for {name}"), async || {
            let reply = ask_over(&socket, name, RecordType::A).await;
            reply.map(drop).map_err(|error| error.to_string())
        })
        .await;
    }
}

/// Listens while all clients ask. Returns the exit status and the output.
async fn learn(world: &World, socket: &str) -> (Option<i32>, String) {
    let collector = format!("--collector=unix://{socket}");
    let args = ["learn", "--client", NETWORK, &collector];
    let folder = world.workdir.path();
    let mut process = Process::start(folder, "egress", &program("egress"), args, &[]);
    eventually("it listens", async || {
        let log = process.log();
        log.contains("listening to").then_some(()).ok_or(log)
    })
    .await;
    let server = world.coredns.address();
    let names = |names: &[&str]| {
        names
            .iter()
            .map(|it| format!("{it}.example.com."))
            .collect::<Vec<_>>()
    };
    let many = MANY
        .map(|it| format!("n{it}.fence.test."))
        .collect::<Vec<_>>();
    ask(server, CLIENTS[0], &names(&["www", "api", "_odd", "none"])).await;
    ask(server, CLIENTS[1], &names(&["WWW"])).await;
    ask(server, CLIENTS[1], &many).await;
    ask(server, STRANGER, &names(&["other"])).await;
    world.settle().await;
    process.signal(Signal::INT);
    let status = process.wait().await.code();
    let log = process.log();
    let (_, output) = log.split_once('\n').unwrap();
    (status, output.to_owned())
}

#[tokio::test]
async fn proposal_has_every_name_of_its_clients_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("inspect.sock").display().to_string();
    let world = world(&socket).await;
    let (status, text) = learn(&world, &socket).await;
    assert_eq!(status, Some(0), "{text}");
    let firewall: EgressFirewall = serde_saphyr::from_str(&text).unwrap();
    let names = firewall
        .spec
        .egress
        .iter()
        .map(|it| it.to.dns_name.clone().unwrap());
    let names: Vec<String> = names.collect();
    assert_eq!(names[0], "www.example.com");
    let mut expected: BTreeSet<_> = MANY.map(|it| format!("n{it}.fence.test")).collect();
    expected.extend(["www", "api"].map(|it| format!("{it}.example.com")));
    assert_eq!(names.iter().cloned().collect::<BTreeSet<_>>(), expected);
    for line in [
        "  # 2 answers to 2 clients",
        "  # In place of the 200 names directly below fence.test:",
        "  #     dnsName: \"*.fence.test\"",
        "  #   _odd.example.com: label `_odd` is not 1 to 63 letters, digits and inner hyphens",
        "  #     cidrSelector: \"0.0.0.0/0\"",
    ] {
        assert!(text.lines().any(|it| it == line), "{line}: {text}");
    }
    // Names of all clients, without those that a rule has.
    let collector = format!("--collector=unix://{socket}");
    let list = programs::run("egress", &["list", &collector]).await;
    let list = String::from_utf8(list.stdout).unwrap();
    let last = list.lines().last().unwrap();
    assert!(last.starts_with("not allowed by name: "), "{list}");
    let names = ["api", "other", "_odd", "www", "fence"];
    let are_listed = names.map(|name| last.contains(name));
    assert_eq!(are_listed, [true, true, true, false, false], "{last}");
}
