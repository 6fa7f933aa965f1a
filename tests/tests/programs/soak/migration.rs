//! The migration from ovn-kubernetes' own resolver to `DNSNameResolver` objects, and back: allowed traffic stays
//! allowed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
    time::Duration,
};

use hickory_proto::{op::ResponseCode, rr::RecordType};
use proto::api::Family;
use tests::{
    allowed::{Absence, absences},
    monitor::Monitor,
    northbound::Northbound,
    ovnkube::{Follow, OvnKube, OwnResolver, set_name},
    soak,
    upstream::{Asked, Scripted, Speech},
    wait::eventually,
    world::{Setup, World},
};

/// The names as two authors wrote them.
const WRITTEN: [&str; 2] = ["one.up.test", "Two.Up.Test"];

/// The names in `DNSNameResolver` objects and their sets.
const NORMALISED: [&str; 2] = ["one.up.test.", "two.up.test."];

const WILDCARD: &str = "*.up.test.";

/// The interval of ovn-kubernetes' own look-ups here; the writer makes five repairs in ten seconds before it slows
/// down.
const EVERY: Duration = Duration::from_secs(3);

/// The longest allowed gap of an address.
const MOMENT: Duration = Duration::from_secs(1);

/// The first labels of the names, which identify their addresses.
const LABELS: [&str; 3] = ["one", "two", "three"];

/// An upstream whose answers have one of several addresses in turn, valid for the whole test. A client that queries
/// once knows one of them.
async fn rotating(addresses: &Arc<AtomicU32>) -> Scripted {
    let (addresses, turn) = (Arc::clone(addresses), AtomicUsize::new(0));
    Scripted::start(move |asked: &Asked| {
        let name = asked.name().to_lowercase();
        let number = LABELS.iter().position(|label| name.starts_with(label));
        match number {
            Some(number) if asked.is_v4() => {
                let count = addresses.load(Ordering::SeqCst) as usize;
                let next = turn.fetch_add(1, Ordering::SeqCst) % count;
                asked.addresses(&[&address(number, next)], 3600).say()
            }
            _ => asked.reply(ResponseCode::NoError).say(),
        }
    })
    .await
}

fn address(name: usize, index: usize) -> String {
    format!("198.18.{name}.{}", index + 1)
}

/// Pods look the names up until the rules' sets have all addresses.
async fn pods_fill(world: &World, sets: [&str; 2], count: u32) {
    for (number, set) in sets.into_iter().enumerate() {
        let all: Vec<String> = (0..count as usize).map(|i| address(number, i)).collect();
        eventually(
            &format!("{count} addresses in the set of {set}"),
            async || {
                world.coredns.ask(NORMALISED[number], RecordType::A).await;
                let rows = world.northbound.sets(set, Family::V4)?;
                let [row] = rows.as_slice() else {
                    return Err(format!("{} rows", rows.len()));
                };
                let missing: Vec<_> = all
                    .iter()
                    .filter(|ip| !row.addresses.contains(*ip))
                    .collect();
                let whole = missing.is_empty().then_some(());
                whole.ok_or_else(|| format!("{missing:?} are missing"))
            },
        )
        .await;
    }
}

fn sets_of(name: &str) -> [String; 2] {
    Family::ALL.map(|family| set_name(name, family))
}

/// Creates the empty sets of names, as ovn-kubernetes does before their rules.
fn make_sets(northbound: &Northbound, names: [&str; 2]) {
    for name in names {
        for (set, family) in sets_of(name).iter().zip(Family::ALL) {
            northbound.create_set(set, name, family, "[]");
        }
    }
}

/// Makes the rules refer to the sets of these names, and removes those of the other names.
fn turn_to(northbound: &Northbound, rules: &[String], names: [&str; 2], from: [&str; 2]) {
    for (rule, name) in rules.iter().zip(names) {
        let sets = sets_of(name);
        northbound.turn_acl(rule, &sets.each_ref().map(String::as_str));
    }
    for set in from.into_iter().flat_map(sets_of) {
        northbound.nbctl(&["destroy", "Address_Set", &set]).unwrap();
    }
}

/// The addresses that were missing since the last call, and came back.
fn gaps(history: &Monitor, known: &mut usize, what: &str) -> Vec<Absence> {
    let all = absences(&history.updates());
    let new = all[*known..].to_vec();
    *known = all.len();
    let longest = new.iter().map(Absence::length).max().unwrap_or_default();
    let lost: Vec<_> = new.iter().filter(|absence| absence.to.is_none()).collect();
    assert!(lost.is_empty(), "{what}: {lost:?}");
    let longest_of = format!("{what}: the longest of {} absences", new.len());
    soak::judge(&longest_of, longest, MOMENT);
    new
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn migration_from_ovn_kubernetes_resolver_and_back_blocks_nothing() {
    let rounds = soak::or_long(2, 30);
    let count = Arc::new(AtomicU32::new(4));
    let upstream = rotating(&count).await;
    let (workdir, store) = World::prepare(&Setup {
        allow: &WRITTEN,
        upstream: Some(upstream.address),
        ..Setup::default()
    });
    // ovn-kubernetes already runs.
    let northbound = Northbound::start(workdir.path()).await;
    northbound.create_namespace_set();
    make_sets(&northbound, WRITTEN);
    let rules: Vec<String> = (0..)
        .zip(WRITTEN)
        .map(|(index, name)| {
            let sets = sets_of(name);
            let sets = sets.each_ref().map(String::as_str);
            northbound.create_acl("allow", 10_000 - index, &sets, true)
        })
        .collect();
    let own = OwnResolver::start(workdir.path(), upstream.address, &WRITTEN, EVERY);
    own.more(1).await;

    // The programs start. They add the addresses of pods' answers to those of ovn-kubernetes, which replaces all of
    // them in each of its rounds.
    let world = World::start_with(workdir, store, northbound, &[]).await;
    let northbound = &world.northbound;
    pods_fill(&world, WRITTEN, 4).await;
    let history = Monitor::with_rules(world.workdir.path()).await;
    let mut known = 0;
    for _ in 0..rounds {
        own.more(1).await;
        pods_fill(&world, WRITTEN, 4).await;
    }
    let repaired = gaps(&history, &mut known, "beside its own resolver");
    assert!(!repaired.is_empty(), "it took nothing away");

    // With --enable-dns-name-resolver, ovn-kubernetes finds the objects, creates their sets, fills them from the
    // statuses, and changes its rules. It deletes unreferenced sets.
    drop(own);
    pods_fill(&world, WRITTEN, 4).await;
    gaps(&history, &mut known, "its last round");
    make_sets(northbound, NORMALISED);
    let statuses = Follow::StatusesOnly(Duration::ZERO);
    let ovnkube = OvnKube::start(&[world.workdir.path()], &world.store, statuses);
    ovnkube.took(NORMALISED.len()).await;
    turn_to(northbound, &rules, NORMALISED, WRITTEN);
    pods_fill(&world, NORMALISED, 4).await;
    let lost = gaps(&history, &mut known, "to objects");
    assert!(lost.is_empty(), "{lost:?}");
    // Everything continues, and wildcards work.
    count.store(6, Ordering::SeqCst);
    pods_fill(&world, NORMALISED, 6).await;
    northbound.create_set(&set_name(WILDCARD, Family::V4), WILDCARD, Family::V4, "[]");
    world
        .store
        .allow("team", &[WRITTEN[0], WRITTEN[1], WILDCARD]);
    world
        .expect_flow_through(WILDCARD, "three.up.test.", Family::V4, &address(2, 0))
        .await;
    let lost = gaps(&history, &mut known, "with objects");
    assert!(lost.is_empty(), "{lost:?}");

    // Back: rules with wildcards first. Then the sets are empty when the rules refer to them, and its own resolver is
    // slow.
    world.store.allow("team", &WRITTEN);
    let set = set_name(WILDCARD, Family::V4);
    northbound.nbctl(&["destroy", "Address_Set", &set]).unwrap();
    drop(ovnkube);
    make_sets(northbound, WRITTEN);
    turn_to(northbound, &rules, WRITTEN, NORMALISED);
    pods_fill(&world, WRITTEN, 6).await;
    gaps(&history, &mut known, "back to its own resolver");
    let own = OwnResolver::start(world.workdir.path(), upstream.address, &WRITTEN, EVERY);
    for _ in 0..rounds {
        own.more(1).await;
        pods_fill(&world, WRITTEN, 6).await;
    }
    gaps(&history, &mut known, "beside it again");

    // While ovn-kubernetes creates the sets, no other client does.
    let made = history.updates();
    let mut made = made
        .iter()
        .flat_map(|update| update.rows.values().flatten());
    assert!(made.all(|row| !row.external_ids.contains_key("ovn-writer/created")));
}
