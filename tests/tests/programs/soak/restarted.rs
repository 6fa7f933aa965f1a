//! CoreDNS and the collector are restarted while pods send queries.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use hickory_proto::{op::ResponseCode, rr::RecordType};
use proto::api::Family;
use rustix::process::Signal;
use tests::{
    dns::ask,
    soak,
    upstream::{Asked, Scripted, Speech},
    wait::eventually,
};
use tokio::task::JoinSet;

use super::{address, looking_up, number, numbered_name};

/// Addresses have a TTL of five minutes, so that an expiry does not hide a missed answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reloads_of_coredns_and_restarts_of_the_collector_under_load_end_right() {
    const NAMES: u32 = 20;
    // Every name gets a new address whenever this is incremented.
    let generation = Arc::new(AtomicU32::new(0));
    let current = {
        let generation = Arc::clone(&generation);
        move |number: u32| generation.load(Ordering::SeqCst) * NAMES + number
    };
    let script = {
        let current = current.clone();
        move |asked: &Asked| match number(&asked.name()) {
            Some(number) if asked.is_v4() => {
                asked.ips(&[address(current(number), false)], 300).say()
            }
            _ => asked.reply(ResponseCode::NoError).say(),
        }
    };
    let upstream = Scripted::start(script).await;
    let names: Vec<String> = (0..NAMES).map(numbered_name).collect();
    let mut world = looking_up(
        &upstream,
        &names.iter().map(String::as_str).collect::<Vec<_>>(),
        &[],
    )
    .await;
    let server = world.coredns.address();
    let answers = Arc::new(AtomicU32::new(0));
    let mut pods = JoinSet::new();
    for pod in 0..4 {
        let (names, answers) = (names.clone(), Arc::clone(&answers));
        pods.spawn(async move {
            for name in names.iter().cycle().skip(pod) {
                if ask(server, name, RecordType::A).await.is_ok() {
                    answers.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
    }
    let more = async || {
        let wanted = answers.load(Ordering::SeqCst) + 10 * NAMES;
        eventually("pods are answered", async || {
            let count = answers.load(Ordering::SeqCst);
            let enough = (count >= wanted).then_some(());
            enough.ok_or_else(|| count.to_string())
        })
        .await;
    };
    for round in 1..=soak::or_long(6, 50) {
        generation.fetch_add(1, Ordering::SeqCst);
        more().await;
        world.coredns.process().signal(Signal::USR1);
        eventually("CoreDNS has reloaded", async || {
            let count = world
                .coredns
                .process()
                .log()
                .matches("Reloading complete")
                .count();
            (count >= round)
                .then_some(())
                .ok_or_else(|| count.to_string())
        })
        .await;
        if round % 3 == 0 {
            world.collector.process().kill();
            generation.fetch_add(1, Ordering::SeqCst);
            more().await;
            world.collector.restart().await;
        }
        more().await;
    }
    // From here on only the collector sends queries.
    pods.shutdown().await;
    println!("{} answers to pods", answers.load(Ordering::SeqCst));
    eventually("every name has the address it has now", async || {
        for (name, number) in names.iter().zip(0..) {
            let rows = world.northbound.sets(name, Family::V4)?;
            let now = address(current(number), false).to_string();
            if !rows.iter().any(|row| row.addresses.contains(&now)) {
                return Err(format!("{now} is missing in {name}: {rows:?}"));
            }
        }
        Ok(())
    })
    .await;
}
