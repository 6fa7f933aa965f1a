//! Faults of running programs.

use k8s_openapi::api::rbac::v1::Role;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use proto::api::Family;
use serde_json::json;
use tests::{chart::COLLECTOR, or_skip, wait::eventually};

use super::{finds, is_well};
use crate::installation::{ADDRESS, Installation, NAME, OBJECTS};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_of_programs_are_named_one_by_one_and_two_at_once() {
    let mut it = or_skip!(Installation::start().await);
    is_well(&it).await;
    let database = it.databases[0].remote();
    let place = format!("ovn-writer {} on node node-a", it.writers[0].name);

    it.databases[0].process().kill();
    let seen =
        format!("✗ ovn-writers: {database}: no connection to the database (says the {place})");
    let lost = (seen.as_str(), "see that this database runs");
    finds(&it, 1, &[lost]).await;

    // The second fault at once.
    it.restart_coredns(1, false).await;
    let server = it.coredns[1].address();
    let server = format!("DNS server {server} is not streaming");
    let text = finds(
        &it,
        1,
        &[lost, (&server, "restart CoreDNS if it lost the collector")],
    )
    .await;
    println!("{text}");
    it.databases[0].restart().await;
    it.restart_coredns(1, true).await;
    is_well(&it).await;

    no_leader(&it).await;
    differing_rows(&mut it, &place).await;
}

/// No collector may write the Lease any more.
async fn no_leader(it: &Installation) {
    let roles: Api<Role> = Api::namespaced(it.server.client().await, OBJECTS);
    let role = roles.get(COLLECTOR).await.unwrap();
    let rules = serde_json::to_value(&role.rules).unwrap();
    let kept = rules.as_array().unwrap().iter();
    let kept: Vec<_> = kept
        .filter(|rule| rule["resources"] != json!(["leases"]))
        .collect();
    let set = async |rules: serde_json::Value| {
        let patch = Patch::Merge(json!({ "rules": rules }));
        roles
            .patch(COLLECTOR, &PatchParams::default(), &patch)
            .await
            .unwrap();
    };
    set(json!(kept)).await;
    finds(
        it,
        1,
        &[(
            "✗ Collectors: none leads",
            "docs/troubleshooting.md#egressdnsnoleader",
        )],
    )
    .await;
    set(rules).await;
    is_well(it).await;
}

/// A row of the first node loses its address, and its ovn-writer writes nothing.
async fn differing_rows(it: &mut Installation, place: &str) {
    it.writers[0].program.process().kill();
    it.replace_writer(0, &["--dry-run".to_owned()]).await;
    let rows = it.databases[0].sets(NAME, Family::V4).unwrap();
    let row = rows.first().unwrap().uuid.to_string();
    it.databases[0]
        .nbctl(&[
            "remove",
            "Address_Set",
            &row,
            "addresses",
            &format!("\"{ADDRESS}\""),
        ])
        .unwrap();
    let differs = "✗ Address sets: www.example.com. ";
    let said = format!("the set differs from the statuses (says the {place})");
    let idle = format!("! ovn-writers: the {place} writes nothing: --dry-run");
    finds(
        it,
        1,
        &[
            (differs, "see `egress verify`"),
            (&said, "see `egress verify`"),
            (&idle, "remove --dry-run"),
        ],
    )
    .await;
    it.writers[0].program.process().kill();
    it.replace_writer(0, &[]).await;
    is_well(it).await;
    eventually("the row has the address again", async || {
        let rows = it.databases[0].sets(NAME, Family::V4)?;
        match rows.iter().any(|row| row.addresses.contains(ADDRESS)) {
            true => Ok(()),
            false => Err(format!("{rows:?}")),
        }
    })
    .await;
}
