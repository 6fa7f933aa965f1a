//! The OVSDB client alone.

use ovsdb_replica::Event;

use crate::{
    follow::{client, event, up},
    harness::Database,
};

#[tokio::test]
async fn rows_beside_conditions_do_not_come() {
    let database = Database::start().await;
    let other = [
        "create",
        "Address_Set",
        "name=other",
        "external_ids:k8s.ovn.org/owner-type=X",
    ];
    let uuid = database.northbound.nbctl(&other).unwrap();
    let mut client = client(&database.northbound.remote());
    up(&mut client).await;
    assert!(client.replica().unwrap().is_empty());
    // It becomes a monitored row, and ceases to be one.
    for (id, count) in [("EgressFirewallDNS", 1), ("X", 0)] {
        let id = format!("external_ids:k8s.ovn.org/owner-type={id}");
        let ids = [
            "external_ids:k8s.ovn.org/name=a.b.",
            "external_ids:ip-family=v4",
        ];
        database
            .northbound
            .nbctl(&["set", "Address_Set", &uuid, &id, ids[0], ids[1]])
            .unwrap();
        assert!(matches!(event(&mut client).await, Event::Changed(names) if names.len() == 1));
        assert_eq!(client.replica().unwrap().len(), count);
    }
}
