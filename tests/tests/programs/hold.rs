//! The forwarder that holds answers (`--hold-listen`), between a stock CoreDNS and its upstream.

mod bytes;
mod replicas;
mod soak;

use std::{fs, net::SocketAddr};

use hickory_proto::{op::ResponseCode, rr::RecordType};
use tests::{
    coredns::{CoreDns, free_port},
    dns::ask,
    hold::{WILDCARD, hold_flag, numbered, write_corefile},
    programs::{self, Program},
    store::Store,
    upstream::{Asked, Scripted, Speech},
    wait::eventually,
    workdir::Workdir,
    world::start_collector,
};
use tokio::process::Command;

/// CoreDNS → forwarder → upstream, with a collector that leads. Fields are in the order in which they are dropped.
struct Fixture {
    coredns: CoreDns,
    collector: Program,
    store: Store,
    upstream: Scripted,
    hold: SocketAddr,
    workdir: Workdir,
}

impl Fixture {
    async fn start(flags: &[&str]) -> Self {
        let (workdir, upstream) = (Workdir::new(), Scripted::start(numbered).await);
        let store = Store::new(workdir.join("store"));
        store.allow("team", &[WILDCARD]);
        let hold = free_port();
        let flag = hold_flag(hold, upstream.address);
        // Without probes an event comes up to a second after its answer.
        let flags = [&[&*flag, "--flush-probe=0"], flags].concat();
        let collector = start_collector(&workdir, &store, &flags).await;
        collector.ready().await;
        listens(&collector, true).await;
        eventually("the object of the wildcard", async || {
            store
                .object(WILDCARD)
                .map(drop)
                .ok_or("there is none".to_owned())
        })
        .await;
        write_corefile(&workdir, &[hold, upstream.address]);
        let coredns = CoreDns::start(workdir.path()).await;
        Self {
            coredns,
            collector,
            store,
            upstream,
            hold,
            workdir,
        }
    }

    async fn outcomes(&self, outcome: &str) -> f64 {
        let label = format!("outcome=\"{outcome}\"");
        let metric = "egress_collector_hold_answers_total";
        let admin = self.collector.admin();
        admin.metric(metric, &[&label]).await.unwrap()
    }

    /// Whether the status had the address when the answer came.
    async fn is_written_at_answer(&self, number: u8) -> bool {
        let name = format!("n{number}.up.test.");
        let reply = self.coredns.ask(&name, RecordType::A).await;
        let status = self.store.resolved(WILDCARD, &name);
        let address = reply.addresses()[0].to_string();
        assert_eq!(address, format!("192.0.2.{number}"));
        status.is_some_and(|it| it.resolved_addresses.iter().any(|it| it.ip == address))
    }
}

/// Waits until the forwarder listens, or does not.
async fn listens(collector: &Program, listens: bool) {
    eventually("the forwarder", async || {
        let admin = collector.admin();
        let found = admin.metric("egress_collector_hold_listening", &[]).await;
        match found {
            Ok(found) if (found == 1.0) == listens => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

#[tokio::test]
async fn answer_with_a_new_address_comes_after_its_status() {
    let fixture = Fixture::start(&[]).await;
    let (mut numbers, mut held) = (1..=250, 0.0);
    // A busy machine may be too slow for some.
    while held < 10.0 {
        let number = numbers
            .next()
            .expect("the status comes first for ten of 250 names");
        let is_written = fixture.is_written_at_answer(number).await;
        let before = std::mem::replace(&mut held, fixture.outcomes("written").await);
        assert!(is_written || held == before, "n{number}");
    }
    // A known address passes for every client.
    let known = fixture.outcomes("known").await;
    ask(fixture.hold, "n1.up.test.", RecordType::A)
        .await
        .unwrap();
    assert!(fixture.outcomes("known").await > known);
}

#[tokio::test]
async fn switch_makes_answers_pass_until_it_is_set_back() {
    let fixture = Fixture::start(&["--inspect=tcp://127.0.0.1:0"]).await;
    let inspect = format!("--collector={}", fixture.collector.inspect_url().await);
    let switch = async |mode: &str| {
        let mut egress = Command::new(programs::program("egress"));
        let output = egress
            .args(["hold", mode, &inspect])
            .output()
            .await
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(switch("pass").await.contains("passes all"));
    fixture.is_written_at_answer(1).await;
    for outcome in ["written", "known", "late"] {
        assert_eq!(fixture.outcomes(outcome).await, 0.0, "{outcome}");
    }
    switch("hold").await;
    fixture.is_written_at_answer(2).await;
    let held = fixture.outcomes("written").await + fixture.outcomes("late").await;
    assert_eq!(held, 1.0);
}

#[tokio::test]
async fn forwarded_answer_is_a_source_of_its_own() {
    let fixture = Fixture::start(&["--inspect=tcp://127.0.0.1:0"]).await;
    // Asked directly, since an event of CoreDNS would be the latest source.
    let reply = ask(fixture.hold, "n1.up.test.", RecordType::A).await;
    reply.unwrap();
    let inspect = format!("--collector={}", fixture.collector.inspect_url().await);
    let mut egress = Command::new(programs::program("egress"));
    let output = egress
        .args(["explain", "n1.up.test", &inspect])
        .output()
        .await
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("in an answer that this replica forwarded"),
        "{text}"
    );
}

#[tokio::test]
async fn upstream_that_asks_the_collector_is_refused() {
    let workdir = Workdir::new();
    let store = Store::new(workdir.join("store"));
    let socket = format!("unix://{}", workdir.join("dnstap.sock").display());
    let flag = hold_flag(free_port(), "127.0.0.1:5399".parse().unwrap());
    let output = programs::run(
        "collector",
        &[
            "--store",
            &store.address(),
            "--listen",
            &socket,
            "--admin=127.0.0.1:0",
            "--resolver=127.0.0.1:5399",
            &flag,
        ],
    )
    .await;
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned()
        + &String::from_utf8_lossy(&output.stdout);
    assert!(
        said.contains("127.0.0.1:5399 would ask this collector again"),
        "{said}"
    );
}

#[tokio::test]
async fn upstreams_are_asked_one_after_another() {
    let mut fixture = Fixture::start(&[]).await;
    let silent = Scripted::start(|_| Vec::new()).await;
    let refusing = Scripted::start(|asked: &Asked| asked.reply(ResponseCode::Refused).say()).await;
    let closed = free_port();
    fixture.collector.process().kill();
    let failing = [closed, refusing.address, silent.address];
    let upstreams = failing.into_iter().chain([fixture.upstream.address]);
    let upstreams: Vec<_> = upstreams.map(|it| it.to_string()).collect();
    let upstreams = upstreams.join(",");
    let flag = format!(
        "--hold-listen=udp+tcp://{}?upstream={upstreams}",
        fixture.hold
    );
    fixture.collector = start_collector(&fixture.workdir, &fixture.store, &[&flag]).await;
    listens(&fixture.collector, true).await;
    let reply = ask(fixture.hold, "n7.up.test.", RecordType::A)
        .await
        .unwrap();
    assert_eq!(
        reply.addresses(),
        ["192.0.2.7".parse::<std::net::IpAddr>().unwrap()]
    );
    assert_eq!(silent.count(|it| it.name() == "n7.up.test."), 1);
    for failed in failing {
        let label = format!("upstream=\"{failed}\"");
        let metric = "egress_collector_hold_upstream_failures_total";
        fixture.collector.counts(metric, &[&label], 1.0).await;
    }
    // The one that replied is asked first from then on.
    ask(fixture.hold, "n8.up.test.", RecordType::A)
        .await
        .unwrap();
    assert_eq!(silent.count(|it| it.name() == "n8.up.test."), 0);
}
