//! One tenant's load, and its effect on others.

use std::net::Ipv4Addr;

use proto::api::Family;
use tests::{
    dnstap::{Sender, answer, data, event},
    soak,
    wait::eventually,
    world::{Setup, World},
};

use super::{ADDRESSES, large_answer, large_name};

/// The addresses of regular names that a namespace may have.
const MOST: f64 = 20_000.0;

const OTHER: &str = "www.other.example.com.";

#[tokio::test]
async fn a_tenant_with_names_of_a_thousand_addresses_takes_no_room_of_others() {
    let count = soak::or_long(40, 800);
    let names: Vec<String> = (0..count).map(large_name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let world = World::start(Setup {
        allow: &names,
        ..Setup::default()
    })
    .await;
    world.store.allow("other", &[OTHER]);
    // Two more, for another tenant's name and the wildcard of the fences.
    world.expect_objects(names.len() + 2).await;
    let mut sender = Sender::open(&world.dnstap_socket()).await;
    // As many at once as the queue holds.
    for part in (0..count).collect::<Vec<_>>().chunks(40) {
        for number in part {
            sender
                .send(&large_answer(*number, number * ADDRESSES, ADDRESSES))
                .await
                .unwrap();
        }
        let observed = ["outcome=\"observed\""];
        let so_far = f64::from(part[0] + part.len() as u32);
        world
            .collector
            .counts("egress_collector_events_total", &observed, so_far)
            .await;
    }
    let admin = world.collector.admin();
    let addresses = eventually("the tenant has as many addresses as it may", async || {
        let addresses = admin.metric("egress_collector_addresses", &[]).await;
        let addresses = addresses.map_err(|error| error.to_string())?;
        (addresses >= MOST)
            .then_some(addresses)
            .ok_or_else(|| format!("{addresses} addresses"))
    })
    .await;
    // The last answer before the cap may have had a thousand.
    assert!(addresses <= MOST + f64::from(ADDRESSES), "{addresses}");
    let first = Ipv4Addr::new(11, 0, 0, 0);
    world
        .expect_flow(names[0], Family::V4, &first.to_string())
        .await;
    eventually("the authors of the rules are told", async || {
        let messages = world.collector.messages();
        let told = messages.iter().filter(|it| it["reason"] == "LimitExceeded");
        let count = told.count();
        (1..=3)
            .contains(&count)
            .then_some(())
            .ok_or_else(|| format!("{count} Events"))
    })
    .await;
    // The answers to another tenant's pod arrive as usual.
    let other = data(&event(answer(OTHER, &[[192, 0, 2, 1].into()], 300)));
    sender.send(&other).await.unwrap();
    world.expect_set(OTHER, Family::V4, &["192.0.2.1"]).await;
}
