//! The log of a collector while the API server is down and new addresses come all the time.

use std::{net::IpAddr, time::Duration};

use tests::{
    kube::ApiServer,
    soak::{is_long, or_long},
    wait::{PATIENCE, eventually_within},
};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use crate::collectors::{Collector, Objects, allow};

/// How many names get addresses.
const NAMES: u32 = 200;

/// At most one line in this time.
const ONE_IN: Duration = Duration::from_secs(5);

/// The first lines do not count: those about the unknown state, the lead, and timed-out writes.
const FIRST: Duration = Duration::from_secs(12);

/// For this long, each name gets answers with new addresses, at 200 answers a second.
async fn hear(collector: &mut Collector, first: &mut u32, lasts: Duration) {
    let until = Instant::now() + lasts;
    let mut pace = interval(Duration::from_secs(1) / NAMES);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while Instant::now() < until {
        pace.tick().await;
        let ip = IpAddr::from((0x0b00_0000 + *first).to_be_bytes());
        let name = format!("n{}.test.", *first % NAMES);
        collector.hears(&name, &[ip], 20).await;
        *first += 1;
    }
}

async fn is_quiet_while(
    what: &str,
    goes: impl Fn(&mut ApiServer),
    comes: impl AsyncFn(&mut ApiServer),
) {
    let mut server = ApiServer::start().await;
    let namespace = server.namespace().await;
    let names: Vec<_> = (0..NAMES).map(|i| format!("n{i}.test.")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    allow(&server, &namespace, &names).await;
    let manage = ["--manage-objects", "always"];
    let mut collector = Collector::start(&server.kubeconfig(), &namespace, &manage).await;
    let objects = Objects::of(&server, &namespace).await;
    eventually_within(PATIENCE, "objects", async || {
        let listed = objects.api.list(&Default::default()).await;
        let made = listed.map_err(|error| error.to_string())?.items.len();
        (made == NAMES as usize)
            .then_some(())
            .ok_or_else(|| made.to_string())
    })
    .await;
    let mut address = 0;
    hear(&mut collector, &mut address, Duration::from_secs(1)).await;
    let lines = |collector: &Collector| collector.program.messages();
    let before = lines(&collector).len();
    goes(&mut server);
    hear(&mut collector, &mut address, FIRST).await;
    let first = lines(&collector).len();
    let lasts = or_long(ONE_IN, Duration::from_secs(120));
    hear(&mut collector, &mut address, lasts).await;
    let all = lines(&collector);
    for line in &all[before..] {
        println!(
            "{} {} {} {}",
            line["timestamp"], line["level"], line["target"], line["message"]
        );
    }
    let count = all.len() - first;
    comes(&mut server).await;
    hear(&mut collector, &mut address, Duration::from_secs(1)).await;
    sleep(Duration::from_secs(1)).await;
    println!(
        "{what}: {} lines in the first {FIRST:?}, {count} in {lasts:?} more, {} as it came back",
        first - before,
        lines(&collector).len() - all.len()
    );
    let most = lasts.as_secs() / ONE_IN.as_secs() + 1;
    assert!(count as u64 <= most, "{count} of {most}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn little_is_logged_while_the_api_server_is_killed() {
    is_quiet_while("killed", ApiServer::stop, ApiServer::start_again).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn little_is_logged_while_the_api_server_hangs() {
    let resume = async |server: &mut ApiServer| server.resume();
    is_quiet_while("hanging", |server| server.pause(), resume).await;
    if is_long() {
        is_quiet_while("without etcd", |server| server.pause_etcd(), resume).await;
    }
}
