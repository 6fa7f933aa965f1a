//! `kill -9` during transactions, and large data. Each of these has a long version, see [`tests::soak`].

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
    time::{Duration, Instant},
};

use proto::api::Family::{self, V4, V6};
use serde_json::{Value, json};
use tests::{
    ovnkube::set_name,
    soak::{or_long, times},
    wait::{eventually, eventually_within},
};
use tokio::time::sleep;

use super::World;
use crate::{
    follow::{client, fill, up},
    harness::Database,
    server::run,
};

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
async fn a_writer_killed_during_transactions_leaves_nothing_behind() {
    kill(times(6), true, false).await;
}

#[tokio::test]
async fn a_server_that_is_killed_in_the_middle_of_transactions_gets_them_all() {
    kill(times(6), false, true).await;
}

#[tokio::test]
async fn both_may_be_killed_at_once() {
    kill(times(3), true, true).await;
}

/// The members of the set of a name in the default network. `ovn-nbctl` would read the whole table for it.
fn members(world: &World, name: &str, family: Family) -> Result<BTreeSet<String>, String> {
    let rows = select(world, json!([["name", "==", set_name(name, family)]]))?;
    let members = &rows[0]["addresses"];
    if let Some(one) = members.as_str() {
        return Ok([one.to_owned()].into());
    }
    let members = members[1].as_array().ok_or_else(|| rows.to_string())?;
    let members = members.iter().filter_map(Value::as_str);
    Ok(members.map(str::to_owned).collect())
}

/// The addresses of the matching rows of `Address_Set`.
fn select(world: &World, filter: Value) -> Result<Value, String> {
    let select = json!({"op": "select", "table": "Address_Set", "where": filter, "columns": ["_uuid", "addresses"]});
    let transaction = json!(["OVN_Northbound", select]).to_string();
    let remote = world.database.northbound.remote();
    let output = run(Command::new("ovsdb-client").args(["transact", &remote, &transaction]))?;
    let mut results: Value = serde_json::from_str(&output).map_err(|error| error.to_string())?;
    Ok(results[0]["rows"].take())
}

#[tokio::test(flavor = "multi_thread")]
async fn many_names_and_a_large_set_are_written_beside_many_foreign_rows() {
    let (others, names, large) = or_long((10_000, 500, 5_000), (100_000, 10_000, 50_000));
    let database = Database::start().await;
    let mut filler = client(&database.northbound.remote());
    up(&mut filler).await;
    fill(&mut filler, others).await;
    drop(filler);
    let address = |n: usize| format!("10.{}.{}.{}", n >> 16, n >> 8 & 255, n & 255);
    let world = World::on(database, &[], &[]).await;
    let patience = Duration::from_secs(300);

    let started = Instant::now();
    for n in 0..names {
        let addresses: [&str; 2] = [&address(n), "2001:db8::1"];
        world.store.write_status(&name(n), &addresses);
    }
    let written = started.elapsed();
    eventually_within(patience, "all names have both sets", async || {
        let count = world.metric("egress_ovn_writer_rows", &[]).await;
        let is_whole = (count - 2.0 * names as f64).abs() < f64::EPSILON;
        is_whole.then_some(()).ok_or_else(|| count.to_string())
    })
    .await;
    let all = started.elapsed();
    println!("{names} names beside {others} rows: files in {written:?}, sets in {all:?}");
    for n in [0, names / 2, names - 1] {
        assert_eq!(members(&world, &name(n), V4), Ok([address(n)].into()));
        assert_eq!(
            members(&world, &name(n), V6),
            Ok(["2001:db8::1".to_owned()].into())
        );
    }

    let many: Vec<_> = (0..large).map(address).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    for (what, count) in [
        ("made", large),
        ("smaller by one", large - 1),
        ("whole again", large),
        ("nearly emptied", 1),
    ] {
        let started = Instant::now();
        world.store.write_status("large.example.", &many[..count]);
        let found = eventually_within(patience, what, async || {
            let members = members(&world, "large.example.", V4)?;
            let found = members.len();
            (found == count).then_some(members).ok_or(found.to_string())
        })
        .await;
        println!(
            "a set of {large} addresses is {what}: {:?}",
            started.elapsed()
        );
        assert!(many[..count].iter().all(|address| found.contains(*address)));
    }
    let rows = select(&world, json!([])).unwrap();
    let rows = rows.as_array().unwrap().len();
    assert_eq!(
        rows,
        others + 2 * (names + 1),
        "theirs and ours, and nothing twice"
    );
    world.program.ready().await;
}
