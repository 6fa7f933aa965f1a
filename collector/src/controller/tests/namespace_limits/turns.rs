//! Namespaces within their shares, whose objects other namespaces change too.

use super::{super::World, Cluster, answer, at};
use crate::{
    clients::{Namespace, tests::Pods},
    objects::{NamespaceLimits, budget::WriteCost, publish::Write},
};

fn ask(world: &mut World, asked: &str, client: Option<std::net::IpAddr>) {
    let hash = asked.bytes().fold(7_u32, |hash, byte| {
        hash.wrapping_mul(31).wrapping_add(u32::from(byte))
    });
    let mut observation = answer(asked, "1.1.1.1", world.now);
    let ip = (0x0b00_0000 | (hash & 0x00ff_ffff)).to_be_bytes();
    observation.addresses = [(ip.into(), 7200)].into_iter().collect();
    observation.client = client;
    world.controller.observe(&observation);
}

/// The writes of the next tenth of a second.
fn pass(world: &mut World) -> Vec<Write> {
    let writes = world.controller.writes(at(world.now));
    for write in &writes {
        let outcome = world.carry_out(write);
        let now = at(world.now);
        world.controller.written(&write.key(), write, outcome, now);
    }
    world.now += 100;
    world.controller.tick(at(world.now));
    writes
}

fn has(write: &Write, dns_name: &str) -> bool {
    let Write::Status(object) = write else {
        return false;
    };
    let mut names = object.status.iter().flat_map(|it| &it.resolved_names);
    names.any(|it| it.dns_name == dns_name)
}

/// The cost of a full wildcard.
fn cost<'a>(world: &World, payers: &'a [Namespace]) -> WriteCost<'a> {
    WriteCost {
        payers,
        bytes: 1 << 20,
        since: at(world.now),
    }
}

#[test]
fn a_name_waits_for_no_turn_of_what_pods_without_a_rule_found() {
    let pods = Pods::of(&["none/a", "victim/a"]);
    let mut cluster = Cluster::with(&[("victim", &["*.a.test."])], |config| {
        config.namespace_limits = NamespaceLimits::default();
        config.shared.clients = pods.clients.clone();
    });
    let [none, victim] = ["none/a", "victim/a"].map(|it| Some(pods.address(it)));
    let greedy = pods.numbers(&["greedy"]);
    let world = &mut cluster.world;
    let (mut since, mut waits) = (None, Vec::new());
    for tenth in 0..2000_i64 {
        // Full wildcards of other namespaces change all the time, and wait.
        if tenth % 10 == 0 {
            for _ in 0..50 {
                let cost = cost(world, &greedy);
                let budget = &mut world.controller.objects.budget;
                if budget.may_take(&cost, false, at(world.now)).is_ok() {
                    budget.charge(&cost, at(world.now));
                }
            }
        }
        for i in 0..if tenth == 0 { 1000 } else { 5 } {
            ask(world, &format!("x{tenth}-{i}.a.test."), none);
        }
        if tenth >= 600 && tenth % 200 == 0 && since.is_none() {
            let asked = format!("v{tenth}.a.test.");
            ask(world, &asked, victim);
            since = Some((world.now, asked));
        }
        let now = world.now;
        let writes = pass(world);
        let is_written = |(_, asked): &mut (i64, String)| writes.iter().any(|it| has(it, asked));
        waits.extend(since.take_if(is_written).map(|(since, _)| now - since));
    }
    waits.extend(since.map(|(since, _)| world.now - since));
    assert!(waits.iter().all(|it| *it <= 2_000), "{waits:?}");
}
