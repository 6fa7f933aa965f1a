//! Answers that do not fit a datagram, and answers that are slow.

use std::{net::IpAddr, sync::Arc};

use futures_util::future::join_all;
use hickory_proto::{op::ResponseCode, rr::RecordType};
use proto::api::Family;
use tests::{
    soak,
    upstream::{Say, Scripted, Speech},
    wait::eventually,
    world::{Setup, World},
};
use tokio::sync::Semaphore;

use super::{address, number, numbered_name};

const WILDCARD: &str = "*.up.test.";

#[tokio::test]
async fn an_answer_that_was_cut_off_for_a_pod_is_completed_over_tcp() {
    const ADDRESSES: u32 = 100;
    // As many as an object of the default size may hold.
    let names = soak::or_long(2, 20);
    // Each name has a hundred addresses of its own, of which three fit a datagram.
    let upstream = Scripted::start(|asked| {
        let Some(number) = number(&asked.name()).filter(|_| asked.is_v4()) else {
            return asked.reply(ResponseCode::NoError).say();
        };
        let whole: Vec<IpAddr> = (0..ADDRESSES)
            .map(|i| address(number * ADDRESSES + i, false))
            .collect();
        if asked.tcp {
            asked.ips(&whole, 300).say()
        } else {
            asked.ips(&whole[..3], 300).say_truncated()
        }
    })
    .await;
    let mut world = World::start(Setup {
        allow: &[WILDCARD],
        upstream: Some(upstream.address),
        ..Setup::default()
    })
    .await;
    world.restart_asking(&[]).await;
    // The collector does not know these names before a pod asks.
    for i in 0..names {
        let reply = world.coredns.ask(&numbered_name(i), RecordType::A).await;
        assert!(reply.message.metadata.truncation);
        assert_eq!(reply.addresses().len(), 3);
    }
    let whole: Vec<String> = (0..names * ADDRESSES)
        .map(|i| address(i, false).to_string())
        .collect();
    let whole: Vec<&str> = whole.iter().map(String::as_str).collect();
    world.expect_set(WILDCARD, Family::V4, &whole).await;
    assert!(upstream.count(|asked| asked.tcp) >= names as usize);
}

#[tokio::test]
async fn names_that_are_answered_slowly_delay_no_other() {
    // Slow names are the odd ones. A server has at most 64 queries in flight.
    let (slow, others) = (16, soak::or_long(50, 300));
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
    let mut world = World::start(Setup {
        upstream: Some(upstream.address),
        ..Setup::default()
    })
    .await;
    world.restart_asking(&[]).await;
    let history = world.monitor().await;

    let numbers = || 0..2 * slow + others;
    let names: Vec<String> = numbers().map(numbered_name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    // All of them are looked up at once.
    world.store.allow("team", &names);
    for i in numbers().filter(|i| !is_slow(*i)) {
        let address = address(i, false).to_string();
        history.seen(&numbered_name(i), Family::V4, &address).await;
    }
    let held: Vec<u32> = numbers().filter(|i| is_slow(*i)).collect();
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
    join_all(held.iter().map(async |i| {
        let address = address(*i, false).to_string();
        history.seen(&numbered_name(*i), Family::V4, &address).await;
    }))
    .await;
}
