//! Answers that do not fit into a datagram, and slow answers.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use hickory_proto::op::ResponseCode;
use tests::{
    soak,
    upstream::{Say, Scripted, Speech},
    wait::{PATIENCE, eventually, eventually_within},
    world::World,
};
use tokio::{sync::Semaphore, time::Instant};

use super::{address, looking_up, number, numbered_name};

#[tokio::test]
async fn names_that_are_answered_slowly_delay_no_other() {
    // Odd names are slow. A server has at most 64 queries in flight, so the long version exceeds that until the
    // collector recognises the slow names.
    let slow = soak::or_long(16, 200);
    let others = soak::or_long(50, 300);
    let is_slow = move |number: u32| number % 2 == 1 && number < 2 * slow;
    let gate = Arc::new(Semaphore::new(0));
    let closed = Arc::clone(&gate);
    let upstream = Scripted::start(move |asked| {
        let Some(number) = number(&asked.name()) else {
            return asked.reply(ResponseCode::NoError).say();
        };
        let reply = asked.ips(&[address(number, asked.is_v6())], 300);
        if is_slow(number) {
            return vec![Say::Gated(Arc::clone(&closed), reply)];
        }
        reply.say()
    })
    .await;
    let world = looking_up(&upstream, &[], &[]).await;
    let numbers = 0..2 * slow + others;
    let names: Vec<String> = numbers.clone().map(numbered_name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (held, free): (Vec<u32>, Vec<u32>) = numbers.partition(|i| is_slow(*i));
    // All of them are looked up at once.
    world.store.allow("team", &names);
    let begun = Instant::now();
    expect_sets(&world, &free).await;
    println!("the others are in their sets after {:.1?}", begun.elapsed());
    for name in held.iter().copied().map(numbered_name) {
        eventually("the slow name was asked, too", async || {
            let asked = upstream.count(|asked| asked.name() == name);
            (asked > 0).then_some(()).ok_or_else(|| name.clone())
        })
        .await;
        assert!(
            world.store.resolved(&name, &name).is_none(),
            "{name} was held"
        );
    }
    gate.add_permits(Semaphore::MAX_PERMITS);
    expect_sets(&world, &held).await;
}

/// Waits until the numbered names have their addresses. After many failures a name is looked up again in 2 minutes.
async fn expect_sets(world: &World, numbers: &[u32]) {
    let patience = PATIENCE + Duration::from_secs(120);
    eventually_within(patience, "addresses in their sets", async || {
        let rows = world.northbound.rows()?;
        let addresses: BTreeSet<&str> = rows
            .iter()
            .flat_map(|row| row.addresses.iter().map(String::as_str))
            .collect();
        let has = |i: &&u32| addresses.contains(address(**i, false).to_string().as_str());
        let there = numbers.iter().filter(has).count();
        let whole = (there == numbers.len()).then_some(());
        whole.ok_or_else(|| format!("{there} of {}", numbers.len()))
    })
    .await;
}
