//! Changes of other clients in address sets, and the program's repairs.

use std::time::{Duration, Instant};

use proto::api::{
    DEFAULT_NETWORK_CONTROLLER,
    Family::{self, V4, V6},
    address_set_id, address_set_name,
};
use tests::{soak::is_long, transaction_log};

use super::World;
use crate::harness::Database;

const W: &str = "www.example.com.";
const REPAIRS: &str = "egress_ovn_writer_repairs_total";

mod soak {
    use super::*;

    #[tokio::test]
    async fn foreign_changes_are_repaired_within_a_second_and_counted_by_kind() {
        let world = World::start(&[(W, &["10.0.0.1", "10.0.0.2"])], &[]).await;
        let both = ["10.0.0.1", "10.0.0.2"];
        world.database.expect(W, V4, &both).await;
        let counts = ["missing_row", "missing_address", "surplus_address"];
        let mut expected = [0, 0, 0];
        // The sixth within ten seconds would have to wait.
        for change in 0..4 {
            let uuid = world.database.row(W, V4).uuid;
            let (args, repairs) = match change {
                0 => (
                    vec!["add", "Address_Set", &uuid, "addresses", "10.6.6.6"],
                    [0, 0, 1],
                ),
                1 => {
                    let others = "addresses=\"10.0.0.2\",\"10.6.6.6\",\"2001:db8::1\",\"x y\"";
                    (vec!["set", "Address_Set", &uuid, others], [0, 1, 3])
                }
                2 => (vec!["clear", "Address_Set", &uuid, "addresses"], [0, 2, 0]),
                _ => (vec!["destroy", "Address_Set", &uuid], [1, 0, 0]),
            };
            let start = Instant::now();
            world.nbctl(&args);
            for (index, kind) in counts.iter().enumerate() {
                expected[index] += repairs[index];
                let kind = format!("kind=\"{kind}\"");
                let count = f64::from(expected[index]);
                world.shows(REPAIRS, &[&kind], count).await;
            }
            world.database.expect(W, V4, &both).await;
            let took = start.elapsed();
            println!("{args:?} was repaired, as was seen after {took:?}");
            assert!(
                !is_long() || took < Duration::from_secs(1),
                "{args:?}: {took:?}"
            );
        }
        let said = world.program.messages();
        let said = said.iter().find(|m| {
            m["message"] == "the address sets of a name were changed by another client: the ovn-writer undoes that"
                && m["name"] == W
        });
        assert_eq!(said.expect("a line")["changes"], "mutate v4 -10.6.6.6");
    }
}

fn set(family: Family) -> String {
    address_set_name(&address_set_id(DEFAULT_NETWORK_CONTROLLER, W, family))
}

#[tokio::test]
async fn a_set_that_ovn_kubernetes_lost_is_made_and_counted() {
    let database = Database::start().await;
    database.northbound.create_namespace_set();
    let world = World::on(database, &[(W, &["10.0.0.1", "2001:db8::1"])], &[]).await;
    world.shows("egress_ovn_writer_managed", &[], 1.0).await;
    assert!(world.database.northbound.sets(W, V4).unwrap().is_empty());
    world
        .database
        .northbound
        .create_acl("allow", 10000, &[&set(V4)], true);
    world.database.expect(W, V4, &["10.0.0.1"]).await;
    assert!(world.database.northbound.sets(W, V6).unwrap().is_empty());
    world.shows(REPAIRS, &["kind=\"missing_row\""], 1.0).await;
}

/// A database in which ovn-kubernetes has created the set of [`W`], with the address of its object, and a rule.
async fn managed() -> World {
    let database = Database::start().await;
    let northbound = &database.northbound;
    northbound.create_namespace_set();
    northbound.create_set(&set(V4), W, V4, "\"10.0.0.1\",\"10.0.0.2\"");
    northbound.create_acl("allow", 10000, &[&set(V4)], true);
    let world = World::on(database, &[(W, &["10.0.0.1", "10.0.0.2"])], &[]).await;
    world.shows("egress_ovn_writer_managed", &[], 1.0).await;
    world
}

impl World {
    /// The counted repairs: missing and surplus addresses.
    async fn repairs(&self) -> [f64; 2] {
        let missing = self.metric(REPAIRS, &["kind=\"missing_address\""]).await;
        let surplus = self.metric(REPAIRS, &["kind=\"surplus_address\""]).await;
        [missing, surplus]
    }

    /// Whether it has logged that another client changed the sets.
    fn warned(&self) -> bool {
        let said = self.program.messages();
        said.iter().any(|message| {
            let text = message["message"].as_str().unwrap_or_default();
            message["level"] == "WARN" && text.contains("changed by another client")
        })
    }
}

#[tokio::test]
async fn beside_ovn_kubernetes_a_lasting_difference_is_repaired_and_counted() {
    let both = ["10.0.0.1", "10.0.0.2"];
    let world = managed().await;
    let history = world.database.northbound_monitor().await;
    assert!(!world.warned());
    world.nbctl(&["add", "Address_Set", &set(V4), "addresses", "10.6.6.6"]);
    history.seen(W, V4, "10.6.6.6").await;
    world.database.expect(W, V4, &both).await;
    world
        .shows(REPAIRS, &["kind=\"surplus_address\""], 1.0)
        .await;
    assert!(world.warned());
    world.nbctl(&["remove", "Address_Set", &set(V4), "addresses", "10.0.0.2"]);
    world
        .shows(REPAIRS, &["kind=\"missing_address\""], 1.0)
        .await;
    world.database.expect(W, V4, &both).await;
    assert_eq!(world.repairs().await, [1.0, 1.0]);
}

#[tokio::test]
async fn beside_ovn_kubernetes_its_write_before_the_object_is_no_repair() {
    let world = managed().await;
    let mut before = "10.0.0.1".to_owned();
    for round in 0..5 {
        let next = format!("10.0.1.{round}");
        let column = format!("addresses=[\"{before}\",\"{next}\"]");
        world.nbctl(&["set", "Address_Set", &set(V4), &column]);
        world.store.write_status(W, &[&before, &next]);
        before = next;
    }
    // Once this address is there, all earlier writes have been handled.
    world.store.write_status(W, &["10.0.2.1", &before]);
    world.database.expect(W, V4, &[&before, "10.0.2.1"]).await;
    assert_eq!(world.repairs().await, [0.0, 0.0]);
    assert!(!world.warned());
    let updates = transaction_log::read(world.database.workdir.path());
    let ours = updates.iter().filter(|update| update.comment.is_none());
    let written: Vec<_> = ours
        .flat_map(|update| update.rows.values().flatten())
        .map(|row| row.addresses.clone())
        .collect();
    assert!(
        written.iter().all(|row| row.contains("10.0.2.1")),
        "{written:?}"
    );
}

#[tokio::test]
async fn a_clash_of_names_is_shown_and_left_alone() {
    let database = Database::start().await;
    let set = set(V4);
    let name = format!("name={set}");
    let clash = ["create", "Address_Set", &name, "addresses=10.0.0.7"];
    database.northbound.nbctl(&clash).unwrap();
    let objects: [(&str, &[&str]); 2] = [(W, &["10.0.0.1"]), ("b.example.", &["10.0.0.2"])];
    let world = World::on(database, &objects, &[]).await;
    world.database.expect("b.example.", V4, &["10.0.0.2"]).await;
    world
        .shows("egress_ovn_writer_name_clashes", &[], 1.0)
        .await;
    world.says("the server refuses changes").await;
    let rows = world.database.northbound.rows().unwrap();
    let theirs = rows.iter().find(|row| row.name == set).unwrap();
    assert!(theirs.external_ids.is_empty() && theirs.addresses.iter().eq(["10.0.0.7"]));
    world.nbctl(&["destroy", "Address_Set", &theirs.uuid]);
    world.database.expect(W, V4, &["10.0.0.1"]).await;
    world
        .shows("egress_ovn_writer_name_clashes", &[], 0.0)
        .await;
}
