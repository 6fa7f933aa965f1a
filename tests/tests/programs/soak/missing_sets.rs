//! Rules refer to missing sets, deleted by ovn-kubernetes or another client.

use std::{collections::BTreeSet, time::Duration};

use hickory_proto::op::ResponseCode;
use proto::api::Family;
use tests::{
    allowed::{MissingSet, made_without_a_rule, missing_sets},
    monitor::Update,
    northbound::Northbound,
    ovnkube::{Follow, OvnKube, OwnResolver, set_name},
    programs::Program,
    soak,
    store::Store,
    transaction_log,
    upstream::{Asked, Scripted, Speech},
    wait::eventually,
    workdir::Workdir,
    world::{Setup, World, start_ovn_writer},
};
use tokio::time::{Instant, sleep};

use super::{address, numbered_upstream};

/// The longest allowed time of a missing set, on an idle machine.
const LONGEST: Duration = Duration::from_millis(150);

/// The names as authors wrote them.
const WRITTEN: [&str; 2] = ["one.up.test", "Two.Up.Test"];

/// The names in objects and their sets.
const NORMALISED: [&str; 2] = ["one.up.test.", "two.up.test."];

/// A name whose set ovn-kubernetes does not touch. Once its new address is in the set, the ovn-writer has finished its
/// earlier work.
const FENCE: &str = "fence.example.";

fn addresses(number: u32) -> [String; 2] {
    [false, true].map(|v6| address(number, v6).to_string())
}

/// An ovn-writer beside ovn-kubernetes, with objects that the test writes.
struct Beside {
    writer: Program,
    northbound: Northbound,
    store: Store,
    workdir: Workdir,
    ready: Instant,
    fences: u32,
}

impl Beside {
    /// Starts the ovn-writer on a database that ovn-kubernetes manages. The EgressFirewall has the names `written`.
    /// Their objects have the names `normalised`, with an address by index.
    async fn start(written: &[&str], normalised: &[&str]) -> Self {
        let workdir = Workdir::new();
        let store = Store::new(workdir.join("store"));
        store.allow("team", written);
        for (number, name) in (0..).zip(normalised) {
            store.write_status(name, &addresses(number).each_ref().map(String::as_str));
        }
        store.write_status(FENCE, &[]);
        let northbound = Northbound::start(workdir.path()).await;
        northbound.create_namespace_set();
        make_fence(&northbound);
        let writer = start_ovn_writer(&workdir, &store).await;
        writer.ready().await;
        Self {
            writer,
            northbound,
            store,
            workdir,
            ready: Instant::now(),
            fences: 0,
        }
    }

    fn updates(&self) -> Vec<Update> {
        transaction_log::read(self.workdir.path())
    }

    async fn ovnkube(&self, follow: Follow) -> OvnKube {
        let ovnkube = OvnKube::start(&[self.workdir.path()], &self.store, follow);
        ovnkube.settled().await;
        ovnkube
    }

    /// Checks that the ovn-writer creates every missing set before it has written ten more statuses, one after another.
    async fn mends(&mut self) {
        for _ in 0..10 {
            self.fences += 1;
            let address = address(100_000 + self.fences, false).to_string();
            self.store.write_status(FENCE, &[&address]);
            eventually("the fence is written", async || {
                let rows = self.northbound.sets(FENCE, Family::V4)?;
                let is_there = rows.iter().any(|row| row.addresses.contains(&address));
                is_there.then_some(()).ok_or_else(|| format!("{rows:?}"))
            })
            .await;
            if missing_sets(&self.updates())
                .iter()
                .all(|missing| missing.to.is_some())
            {
                return;
            }
        }
        panic!("sets are missing: {:?}", missing_sets(&self.updates()));
    }

    /// Checks that every set created by the ovn-writer since then had its addresses from the first moment, and a rule
    /// that refers to it.
    fn made_whole_and_with_a_rule(&self, names: &[&str]) {
        let updates = self.updates();
        let unused = made_without_a_rule(&updates, is_ours);
        assert!(unused.is_empty(), "{unused:?}");
        let mut known = BTreeSet::new();
        for update in &updates {
            for (uuid, row) in &update.rows {
                let Some(row) = row.as_ref().filter(|_| known.insert(uuid)) else {
                    continue;
                };
                let place = names.iter().position(|name| row.dns_name() == Some(name));
                if let (true, Some(place)) = (is_ours(update), place) {
                    let [v4, v6] = addresses(place as u32);
                    let wanted = if row.external_ids["ip-family"] == "v6" {
                        v6
                    } else {
                        v4
                    };
                    assert!(row.addresses.iter().eq([&wanted]), "{row}");
                }
            }
        }
    }
}

/// Whether the transaction is the ovn-writer's, which never has a comment.
fn is_ours(update: &Update) -> bool {
    update.comment.is_none()
}

fn make_fence(northbound: &Northbound) {
    let set = set_name(FENCE, Family::V4);
    northbound.create_set(&set, FENCE, Family::V4, "[]");
    northbound.create_acl("allow", 1, &[&set], true);
}

/// The periods after `since` in which rules referred to missing sets; prints them.
fn print_missing(what: &str, updates: &[Update], since: Instant) -> Vec<MissingSet> {
    let mut missing = missing_sets(updates);
    missing.retain(|missing| missing.from >= since);
    let longest = missing.iter().map(|missing| missing.length()).max();
    println!(
        "{what}: rules missed {} sets, the longest {} ms",
        missing.len(),
        longest.unwrap_or_default().as_millis()
    );
    assert!(!missing.is_empty(), "no set was ever missing");
    missing
}

/// Their number; scripts/soak also asserts their length.
fn judge(what: &str, updates: &[Update], since: Instant) -> usize {
    let missing = print_missing(what, updates, since);
    let longer = missing.iter().filter(|missing| missing.length() > LONGEST);
    let longer: Vec<_> = longer.collect();
    assert!(longer.is_empty() || !soak::is_long(), "{longer:?}");
    missing.len()
}

#[tokio::test]
async fn a_set_deleted_under_its_rule_is_created_again_with_its_addresses() {
    let mut beside = Beside::start(&WRITTEN, &NORMALISED).await;
    drop(beside.ovnkube(Follow::Late(Duration::ZERO)).await);
    beside.mends().await;
    for _ in 0..soak::or_long(2, 20) {
        for name in NORMALISED {
            let sets = Family::ALL.map(|family| set_name(name, family));
            let destroy = ["destroy", "Address_Set", &sets[0], &sets[1]];
            beside.northbound.nbctl(&destroy).unwrap();
            beside.mends().await;
        }
    }
    beside.made_whole_and_with_a_rule(&NORMALISED);
    judge("destroyed", &beside.updates(), beside.ready);
    // ovn-kubernetes continues with the new rows.
    let ovnkube = beside.ovnkube(Follow::Late(Duration::ZERO)).await;
    beside.writer.process().kill();
    let failed = ovnkube.failed();
    beside.store.write_status(NORMALISED[0], &["192.0.2.1"]);
    eventually("ovn-kubernetes writes the new row", async || {
        let rows = beside.northbound.sets(NORMALISED[0], Family::V4)?;
        let is_there = rows.iter().any(|row| row.addresses.contains("192.0.2.1"));
        is_there.then_some(()).ok_or_else(|| format!("{rows:?}"))
    })
    .await;
    assert_eq!(ovnkube.failed(), failed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sets_deleted_by_the_clean_up_of_the_flag_are_created_again() {
    let upstream = Scripted::start(|asked: &Asked| {
        let name = asked.name().to_lowercase();
        let number = NORMALISED.iter().position(|known| *known == name);
        match number {
            Some(number) => asked
                .ips(&[address(number as u32, asked.is_v6())], 300)
                .say(),
            None => asked.reply(ResponseCode::NoError).say(),
        }
    })
    .await;
    let mut beside = Beside::start(&WRITTEN, &NORMALISED).await;
    for _ in 0..soak::or_long(2, 20) {
        let off = beside.ovnkube(Follow::Never).await;
        let every = Duration::from_secs(1);
        let own = OwnResolver::start(beside.workdir.path(), upstream.address, &WRITTEN, every);
        own.more(1).await;
        drop((off, own));
        drop(beside.ovnkube(Follow::Late(Duration::ZERO)).await);
        beside.mends().await;
    }
    beside.made_whole_and_with_a_rule(&NORMALISED);
    judge("the flag", &beside.updates(), beside.ready);
}

#[tokio::test]
async fn a_name_removed_and_added_again_has_its_set_and_addresses_back() {
    let upstream = numbered_upstream(300).await;
    let names = ["n1.up.test.", "n2.up.test."];
    let (workdir, store) = World::prepare(&Setup {
        allow: &names,
        upstream: Some(upstream.address),
        ..Setup::default()
    });
    let northbound = Northbound::start(workdir.path()).await;
    let ovnkube = OvnKube::start(&[workdir.path()], &store, Follow::Late(Duration::ZERO));
    ovnkube.settled().await;
    let world = World::start_with(workdir, store, northbound, &[]).await;
    for (number, name) in (1..).zip(names) {
        world
            .expect_flow(name, Family::V4, &addresses(number)[0])
            .await;
    }
    let seconds: &[f64] = soak::or_long(&[0.3, 3.5], &[0.3, 1.0, 3.5, 8.0, 20.0]);
    let start = Instant::now();
    for pause in seconds {
        world.store.allow("team", &names[1..]);
        world.expect_no_rows(names[0]).await;
        sleep(Duration::from_secs_f64(*pause)).await;
        world.store.allow("team", &names);
        world
            .expect_flow(names[0], Family::V4, &addresses(1)[0])
            .await;
    }
    ovnkube.settled().await;
    drop(ovnkube);
    let updates = transaction_log::read(world.workdir.path());
    let unused = made_without_a_rule(&updates, is_ours);
    assert!(unused.is_empty(), "{unused:?}");
    let count = judge("put back", &updates, start);
    assert_eq!(count, Family::ALL.len() * seconds.len());
}

#[tokio::test]
async fn a_database_that_is_made_anew_gets_its_sets_from_ovn_kubernetes() {
    let count = soak::or_long(40, 2000);
    let names: Vec<String> = (0..count).map(super::numbered_name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut beside = Beside::start(&names, &names).await;
    drop(beside.ovnkube(Follow::Late(Duration::ZERO)).await);
    beside.mends().await;

    beside.northbound.make_anew().await;
    beside.writer.ready().await;
    // A rule with a missing set gets it: the ovn-writer works.
    let set = set_name(names[0], Family::V4);
    beside.northbound.create_acl("allow", 1, &[&set], false);
    eventually("the set of the rule is there", async || {
        let rows = beside.northbound.sets(names[0], Family::V4)?;
        (rows.len() == 1)
            .then_some(())
            .ok_or("it is not".to_owned())
    })
    .await;
    let made = beside.northbound.rows().unwrap();
    assert_eq!(made.len(), 1, "{} sets", made.len());
    make_fence(&beside.northbound);
    drop(beside.ovnkube(Follow::Late(Duration::ZERO)).await);
    beside.mends().await;
    beside.made_whole_and_with_a_rule(&names);
    print_missing("made anew", &beside.updates(), beside.ready);
}
