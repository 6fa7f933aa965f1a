//! Two collectors that both hear CoreDNS; one after the other is killed, paused or restarted.

use std::time::Duration;

use rustix::process::Signal;
use tests::{
    programs::Program,
    soak,
    told::{self, Clients},
    upstream::Scripted,
    wait::eventually,
};

use super::{looking_up, rotating};

const NAME: &str = "rotating.up.test.";

const SOCKET: &str = "second.sock";

const TTL: Duration = Duration::from_secs(5);

async fn expect_heard(collectors: [&Program; 2]) {
    for collector in collectors {
        collector
            .counts("egress_collector_connections", &[], 1.0)
            .await;
    }
    eventually("one leads", async || {
        let mut leading = 0.0;
        for collector in collectors {
            let metric = collector
                .admin()
                .metric("egress_replica_leading", &[])
                .await;
            leading += metric.map_err(|error| error.to_string())?;
        }
        (leading == 1.0)
            .then_some(())
            .ok_or_else(|| leading.to_string())
    })
    .await;
}

/// Applies a fault to a collector, for some time.
async fn disturb(collector: &mut Program, round: u32) {
    let pause = tokio::time::sleep(Duration::from_secs(4));
    match round % 3 {
        0 => {
            collector.process().kill();
            pause.await;
            collector.restart().await;
        }
        1 => {
            collector.process().signal(Signal::STOP);
            pause.await;
            collector.process().signal(Signal::CONT);
        }
        _ => {
            collector.process().terminate().await;
            collector.restart().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_collector_may_be_killed_paused_or_restarted_without_a_lost_answer() {
    let upstream = Scripted::start(rotating(TTL, |_, _| ())).await;
    let mut world = looking_up(&upstream, &[NAME], &["--grace", "1s"]).await;
    let mut second = world.another_collector(SOCKET, &["--grace", "1s"]).await;
    world.stream_to(SOCKET).await;
    expect_heard([&world.collector, &second]).await;
    world.look_up(NAME).await;
    let history = world.monitor().await;

    let clients = Clients::start(world.coredns.address(), 10, |_| (NAME, NAME.to_owned()));
    for round in 0..soak::or_long(3, 30) {
        // The one that leads, and the other one.
        let leads = world
            .collector
            .admin()
            .metric("egress_replica_leading", &[])
            .await;
        let is_first = (leads.unwrap() > 0.5) == (round / 3 % 2 == 0);
        let collector = if is_first {
            &mut world.collector
        } else {
            &mut second
        };
        disturb(collector, round).await;
        expect_heard([&world.collector, &second]).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
    let told = clients.told(0);
    // The last answers have arrived, and their time is over.
    tokio::time::sleep(TTL).await;
    history.departures().await;
    told::judge(&told, &history.updates(), TTL, told::LATEST);
}
