//! `kill -9` during transactions. It has a long version, see [`tests::soak`].

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tests::{soak::times, wait::eventually};
use tokio::time::sleep;

use super::World;

const NAMES: usize = 40;

type Sets = BTreeMap<String, BTreeSet<String>>;

fn name(n: usize) -> String {
    format!("n{n}.example.")
}

/// Addresses of both families; all but one are new in this round.
fn addresses(n: usize, round: usize) -> Vec<String> {
    let mut all: Vec<_> = (0..n % 5).map(|k| format!("10.{n}.{round}.{k}")).collect();
    all.push(format!("2001:db8::{:x}:{:x}", n + 1, round + 1));
    all.push(format!("10.{n}.255.255"));
    all
}

/// The addresses of all sets, of both families together.
fn sets(world: &World) -> Result<Sets, String> {
    let mut sets = Sets::new();
    for row in world.database.northbound.rows()? {
        let name = row.dns_name().ok_or("a row without a name")?.to_owned();
        let set = sets.entry(name).or_default();
        for address in row.addresses {
            if !set.insert(address.clone()) {
                return Err(format!("{address} twice"));
            }
        }
    }
    Ok(sets)
}

async fn expect(world: &World, expected: &Sets) {
    eventually("the sets are as the store says", async || {
        let sets = sets(world)?;
        let same = (sets == *expected).then_some(());
        same.ok_or_else(|| format!("{sets:?}"))
    })
    .await;
}

/// Kills the writer, the server or both repeatedly while statuses change.
async fn kill(rounds: usize, writer: bool, server: bool) {
    let mut world = World::start(&[], &[]).await;
    let mut expected = Sets::new();
    for round in 0..rounds {
        for n in 0..NAMES {
            let addresses = addresses(n, round);
            let texts: Vec<_> = addresses.iter().map(String::as_str).collect();
            world.store.write_status(&name(n), &texts);
            expected.insert(name(n), addresses.into_iter().collect());
        }
        // At varying points of the following work.
        sleep(Duration::from_millis((round as u64 * 7) % 50)).await;
        if writer {
            world.program.process().kill();
        }
        if server {
            world.database.northbound.restart().await;
        }
        if writer {
            world.program.restart().await;
        }
        if round % 10 == 0 {
            expect(&world, &expected).await;
        }
    }
    expect(&world, &expected).await;
    assert_eq!(world.database.northbound.rows().unwrap().len(), 2 * NAMES);
    world.program.ready().await;
}

#[tokio::test]
async fn writer_server_or_both_killed_during_transactions_lose_and_double_nothing() {
    kill(times(6), true, false).await;
    kill(times(6), false, true).await;
    kill(times(3), true, true).await;
}
