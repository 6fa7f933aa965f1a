//! Changes of other clients in address sets, and the program's repairs.

use proto::api::{
    DEFAULT_NETWORK_CONTROLLER,
    Family::{self, V4, V6},
    address_set_id, address_set_name,
};
use tests::monitor::Monitor;

use super::World;
use crate::harness::Database;

const W: &str = "www.example.com.";
const REPAIRS: &str = "egress_ovn_writer_repairs_total";

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
    let history = Monitor::start(world.database.workdir.path()).await;
    assert_eq!(history.departures().await, [""; 0]);
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
    let surplus = world.metric(REPAIRS, &["kind=\"surplus_address\""]).await;
    assert!((surplus - 1.0).abs() < f64::EPSILON, "{surplus}");
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
