//! The steps of the demo, in order. The output has at most 55 lines.

use std::time::Duration;

use hickory_proto::rr::RecordType;
use proto::api::Family;
use tokio::time::{Instant, interval};

use crate::{
    people::{egress, place},
    stage::{Stage, heading, table_heading},
};

const WWW: &str = "www.shop.example.";
const API: &str = "api.shop.example.";
const ASSETS: &str = "*.assets.shop.example.";
const STATUS: &str = "status.shop.example.";
const TRACKER: &str = "tracker.shop.example.";

/// Names under [`ASSETS`], each with an answer that pods get.
const UNDER_ASSETS: [&str; 4] = [
    "css.assets.shop.example.",
    "IMG.Assets.shop.example.",
    "fonts.assets.shop.example.",
    "js.assets.shop.example.",
];

/// Runs all steps; with `keep`, then answers look-ups until it is dropped.
pub(crate) async fn run(keep: bool) {
    let begun = Instant::now();
    let mut stage = servers().await;
    exact_names(&stage).await;
    a_wildcard(&stage).await;
    why(&stage).await;
    a_restart(&mut stage).await;
    egress(&["verify"], &of_writer(&stage).await, 2).await;
    if keep {
        play(&stage).await
    }
    drop(stage);
    let seconds = begun.elapsed().as_secs();
    heading(&format!(
        "Done in {seconds} s: no process and no file is left."
    ));
    println!(
        "Next: `scripts/demo --keep` leaves it running, with its status page in your browser."
    );
    println!("docs/install.md installs it in your cluster.");
}

async fn servers() -> Stage {
    heading("1. The servers start");
    let stage = Stage::set().await;
    let world = &stage.world;
    println!(
        "  CoreDNS       stock, at {}; its Corefile has the line `dnstap unix://… full`",
        world.coredns.address()
    );
    println!("  collector     reads CoreDNS's answers, with --flush-probe 10ms; ovn-writer writes");
    println!(
        "  ovsdb-server  OVN's northbound database, at {}",
        world.northbound.remote()
    );
    println!("  EgressFirewalls: team-a allows {WWW} {ASSETS} {STATUS}");
    println!("                   team-b allows {WWW} {API}");
    stage
}

async fn exact_names(stage: &Stage) {
    heading("2. Addresses of names in rules are in the address sets before a pod asks");
    stage.is_streaming().await;
    for (rule, family, address) in [
        (WWW, Family::V4, "192.0.2.11"),
        (WWW, Family::V6, "2001:db8::10"),
        (API, Family::V4, "192.0.2.20"),
        (API, Family::V6, "2001:db8::20"),
    ] {
        stage.seen(rule, family, address).await;
    }
    table_heading();
    stage.look_up(&[(WWW, WWW)]).await;
}

async fn a_wildcard(stage: &Stage) {
    heading("3. Under a wildcard they come with the answer to the pod");
    let mut times = Vec::new();
    for name in UNDER_ASSETS {
        times.extend(stage.look_up(&[(name, ASSETS)]).await);
    }
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    println!(
        "  Median from the DNS answer to the row: {:.1} ms.",
        median.as_secs_f64() * 1e3
    );
    let reply = stage.world.coredns.ask(TRACKER, RecordType::A).await;
    let rows = stage.world.northbound.rows().expect("the database answers");
    for address in reply.addresses() {
        let text = address.to_string();
        let found = rows.iter().any(|row| row.addresses.contains(&text));
        assert!(!found, "{address} of {TRACKER} is in a set");
        println!("  {TRACKER:<28} no rule: {address} is in no set");
    }
}

async fn why(stage: &Stage) {
    heading("4. Why an address is there, and why another one is not");
    // An ACL as ovn-kubernetes makes it for the rule.
    let northbound = &stage.world.northbound;
    northbound.create_acls(&[API.to_owned()], false);
    let collector = place("--collector", &stage.world.collector).await;
    egress(&["explain", API], &collector, 3).await;
    egress(&["explain", TRACKER], &collector, 2).await;
    egress(&["explain", "192.0.2.20"], &of_writer(stage).await, 5).await;
}

async fn a_restart(stage: &mut Stage) {
    heading("5. The collector is killed and starts again");
    let before = stage.departures();
    stage.world.collector.process().kill();
    println!("  kill -9: the sets are as they were: {}", sizes(stage));
    stage.world.collector.restart().await;
    stage.world.collector.ready().await;
    stage.is_streaming().await;
    let name = "late.assets.shop.example.";
    stage
        .world
        .expect_flow_through(ASSETS, name, Family::V4, "192.0.2.39")
        .await;
    let departed = stage.departures();
    assert_eq!(departed, before);
    println!("  It runs again. Addresses that left a set meanwhile: 0");
}

async fn of_writer(stage: &Stage) -> [String; 2] {
    place("--ovn-writer", &stage.world.ovn_writer).await
}

/// How many addresses each name has.
fn sizes(stage: &Stage) -> String {
    let size = |name: &&str| {
        let [v4, v6] = Family::ALL.map(|family| {
            let rows = stage.world.northbound.sets(name, family);
            let rows = rows.expect("the database answers");
            rows.iter().map(|row| row.addresses.len()).sum::<usize>()
        });
        (v4 + v6 > 0).then(|| format!("{name} {v4}+{v6}"))
    };
    let sizes: Vec<String> = [WWW, API, ASSETS].iter().filter_map(size).collect();
    format!("{} (IPv4+IPv6)", sizes.join(", "))
}

async fn play(stage: &Stage) -> ! {
    let world = &stage.world;
    heading(
        "It keeps running; Ctrl-C ends it. The status pages, and commands for another terminal:",
    );
    let collector = world.collector.page_url().await;
    println!("  {collector} and {}", world.ovn_writer.page_url().await);
    let dns = world.coredns.address();
    println!(
        "  dig @{} -p {} new.assets.shop.example A",
        dns.ip(),
        dns.port()
    );
    let collector = place("--collector", &world.collector).await.join(" ");
    println!("  target/debug/egress explain new.assets.shop.example {collector}");
    println!(
        "  target/debug/egress verify {}",
        of_writer(stage).await.join(" ")
    );
    println!(
        "  $EDITOR {}     # add a rule",
        world.store.egress_firewall("team-a").display()
    );
    let mut ticks = interval(Duration::from_secs(2));
    loop {
        ticks.tick().await;
        world.look_up(WWW).await;
        world.look_up(STATUS).await;
    }
}
