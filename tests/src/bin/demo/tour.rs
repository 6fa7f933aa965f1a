//! The steps of the demo, in order.

use std::time::Duration;

use hickory_proto::rr::RecordType;
use proto::api::Family;
use tests::{northbound::remote, wait::eventually};
use tokio::time::{Instant, interval};

use crate::stage::{Arrival, Stage, heading};

const WWW: &str = "www.shop.example.";
const API: &str = "api.shop.example.";
const ASSETS: &str = "*.assets.shop.example.";
const STATUS: &str = "status.shop.example.";

/// Runs all steps; with `keep`, then answers look-ups until it is dropped.
pub(crate) async fn run(keep: bool) {
    let begun = Instant::now();
    let mut stage = servers().await;
    addresses_appear(&stage).await;
    a_wildcard(&stage).await;
    a_restart(&mut stage).await;
    an_address_changes(&stage).await;
    an_egress_firewall_goes(&stage).await;
    if keep {
        play(&stage).await
    }
    drop(stage);
    heading(&format!(
        "Done in {} s: no process and no file is left.",
        begun.elapsed().as_secs()
    ));
    println!("Run `scripts/demo --keep` to play with it yourself.");
}

async fn servers() -> Stage {
    heading("1. The servers start");
    let stage = Stage::set().await;
    let world = &stage.world;
    println!(
        "  CoreDNS       stock, at {}; its Corefile has the line `dnstap unix://… full`",
        world.coredns.address()
    );
    println!("  collector     reads CoreDNS's answers, writes the store");
    println!("  store         {}", world.store.path().display());
    println!("  ovn-writer    reads the store, writes the database");
    println!(
        "  ovsdb-server  OVN's northbound database, at {}",
        world.northbound.remote()
    );
    println!("  Two EgressFirewalls are in the store:");
    println!("    team-a allows {WWW} {ASSETS} {STATUS}");
    println!("    team-b allows {WWW} {API}");
    stage
}

async fn addresses_appear(stage: &Stage) {
    heading(
        "2. Pods look names up, and the addresses that they are told appear in the address sets",
    );
    Arrival::print_heading();
    stage.look_up(&[(WWW, WWW), (API, API)]).await;
    println!("  {API} is a CNAME of a CNAME: the addresses at the end count.");
    println!(
        "  (*) From the DNS answer to the row. A quiet CoreDNS hands its dnstap events over once a second;"
    );
    println!("      most of the time is that wait, up to 1,000 ms.");
}

async fn a_wildcard(stage: &Stage) {
    heading("3. A wildcard takes one label, whichever, and nothing else");
    let others = [
        "assets.shop.example.",
        "eu.img.assets.shop.example.",
        "tracker.shop.example.",
    ];
    for name in others {
        stage.world.coredns.ask(name, RecordType::A).await;
    }
    Arrival::print_heading();
    stage
        .look_up(&[
            ("css.assets.shop.example.", ASSETS),
            ("IMG.Assets.shop.example.", ASSETS),
        ])
        .await;
    let rows = stage.world.northbound.rows().expect("the database answers");
    for name in others {
        let addresses = stage
            .world
            .coredns
            .ask(name, RecordType::A)
            .await
            .addresses();
        for address in addresses {
            let found = rows
                .iter()
                .any(|row| row.addresses.contains(&address.to_string()));
            assert!(!found, "{address} of {name} is in a set");
            println!(
                "  {name:<28} {:<24} {:<4} {address} is in no set",
                "no rule", ""
            );
        }
    }
}

async fn a_restart(stage: &mut Stage) {
    heading(
        "4. The collector is killed and starts again, while another client of the database sees every change",
    );
    let before = stage.monitor.departures().await;
    stage.world.collector.process().kill();
    println!("  kill -9; the sets are as they were: {}", sizes(stage));
    stage.world.collector.restart().await;
    stage.world.collector.ready().await;
    println!(
        "  It runs again. CoreDNS dials it at the next flush, or 10 seconds later; pods look a new name up meanwhile …"
    );
    let name = "fonts.assets.shop.example.";
    stage
        .world
        .expect_flow_through(ASSETS, name, Family::V4, "192.0.2.39")
        .await;
    assert_eq!(stage.monitor.departures().await, before);
    println!(
        "  … and its address, 192.0.2.39, is there: {}",
        sizes(stage)
    );
    println!("  Addresses that left a set during the restart: 0");
}

async fn an_address_changes(stage: &Stage) {
    heading(
        "5. An address changes: the new one is added at once, the old one leaves when its time is over",
    );
    Arrival::print_heading();
    stage.look_up(&[(STATUS, STATUS)]).await;
    stage.edit_zone(STATUS, "192.0.2.50", "192.0.2.51").await;
    println!("  The zone says 192.0.2.51 from now on.");
    stage.look_up(&[(STATUS, STATUS)]).await;
    let since = Instant::now();
    eventually("the old address leaves", async || {
        // Pods continue to look it up.
        stage.world.coredns.ask(STATUS, RecordType::A).await;
        let addresses = stage.addresses(STATUS, Family::V4);
        let left = addresses.len() == 1
            && addresses
                .iter()
                .all(|address| address.to_string() == "192.0.2.51");
        left.then_some(()).ok_or_else(|| format!("{addresses:?}"))
    })
    .await;
    println!(
        "  192.0.2.50 left {} ms later (TTL and grace are 2 s each here).",
        since.elapsed().as_millis()
    );
}

async fn an_egress_firewall_goes(stage: &Stage) {
    heading("6. team-b's EgressFirewall is removed");
    println!("  before: {}", sizes(stage));
    let since = Instant::now();
    stage.world.store.remove_egress_firewall("team-b");
    stage.world.expect_no_addresses(API).await;
    let after = since.elapsed();
    println!("  after:  {}", sizes(stage));
    println!(
        "  The sets of {API} were empty after {} ms, and go in a minute; {WWW} is team-a's too, and stays.",
        after.as_millis()
    );
    assert!(
        !stage.addresses(WWW, Family::V4).is_empty(),
        "{WWW} is team-a's too"
    );
}

/// How many addresses each name has.
fn sizes(stage: &Stage) -> String {
    let size = |name: &&str| {
        let [v4, v6] = Family::ALL.map(|family| stage.addresses(name, family).len());
        (v4 + v6 > 0).then(|| format!("{name} {v4}+{v6}"))
    };
    let sizes: Vec<String> = [WWW, API, ASSETS].iter().filter_map(size).collect();
    format!("{} (IPv4+IPv6)", sizes.join(", "))
}

async fn play(stage: &Stage) -> ! {
    heading("It keeps running; Ctrl-C ends it. In another terminal:");
    let world = &stage.world;
    let dns = world.coredns.address();
    let db = remote(world.workdir.path());
    println!(
        "  dig @{} -p {} video.assets.shop.example A",
        dns.ip(),
        dns.port()
    );
    println!(
        "  ovn-nbctl --no-leader-only --db={db} --columns=name,addresses,external_ids list Address_Set"
    );
    println!(
        "  curl http://{}/metrics        # collector; also /readyz",
        world.collector.admin().address()
    );
    println!(
        "  curl http://{}/metrics        # ovn-writer",
        world.ovn_writer.admin().address()
    );
    println!("  cat {}/*", world.store.objects_folder().display());
    println!(
        "  $EDITOR {}     # add a rule",
        world.store.egress_firewall("team-a").display()
    );
    println!(
        "  $EDITOR {}     # change an address, and the serial",
        stage.file("shop.example.zone").display()
    );
    println!("  tail -F {}/*.log", world.workdir.path().display());
    println!("  A pod looks {WWW} and {STATUS} up every two seconds.");
    let mut ticks = interval(Duration::from_secs(2));
    loop {
        ticks.tick().await;
        world.look_up(WWW).await;
        world.look_up(STATUS).await;
    }
}
