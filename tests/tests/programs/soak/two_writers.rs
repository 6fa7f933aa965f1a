//! The ovn-writer and ovn-kubernetes write the same sets from the same objects, and either may see a status first.

use std::time::Duration;

use hickory_proto::rr::RecordType;
use proto::api::Family;
use tests::{
    allowed::all_closings,
    northbound::Northbound,
    ovnkube::{COMMENT, OvnKube, set_name},
    soak, transaction_log,
    upstream::Scripted,
    wait::eventually,
    world::{Setup, World},
};
use tokio::time::interval;

use super::rotating;

const NAME: &str = "rotating.up.test.";

/// No address expires during the test.
const TTL: Duration = Duration::from_secs(3600);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ovn_writer_beside_ovn_kubernetes_takes_nothing_out_and_makes_missing_sets() {
    let upstream = Scripted::start(rotating(TTL, |_, _| ())).await;
    let (workdir, store) = World::prepare(&Setup {
        allow: &[NAME],
        upstream: Some(upstream.address),
        ..Setup::default()
    });
    let northbound = Northbound::start(workdir.path()).await;
    northbound.create_namespace_set();
    for family in Family::ALL {
        northbound.create_set(&set_name(NAME, family), NAME, family, "[]");
    }
    northbound.create_acls(&[NAME.to_owned()], true);
    let world = World::start_with(workdir, store, northbound, &[]).await;
    let ovnkube = OvnKube::start(&world.northbound, &world.store);

    let mut pace = interval(Duration::from_millis(100));
    let mut told = Vec::new();
    for round in 0..soak::or_long(60, 900) {
        pace.tick().await;
        let kind = [RecordType::A, RecordType::AAAA][round % 2];
        told.extend(world.coredns.ask(NAME, kind).await.addresses());
    }
    has_all(&world, &told).await;
    assert!(ovnkube.writes() > 0, "ovn-kubernetes wrote nothing");

    // Its clean-up deletes a set to which a rule refers.
    for family in Family::ALL {
        let destroy = ["destroy", "Address_Set", &set_name(NAME, family)];
        world.northbound.nbctl(&destroy).unwrap();
        has_all(&world, &told).await;
    }
    drop(ovnkube);
    let closings = all_closings(&transaction_log::read(world.workdir.path())).into_iter();
    let (theirs, ours): (Vec<_>, Vec<_>) =
        closings.partition(|closing| closing.comment.as_deref() == Some(COMMENT));
    assert_eq!(ours, [], "beside {} of ovn-kubernetes", theirs.len());
}

/// Waits until the sets of the name have every address that a pod was told.
async fn has_all(world: &World, told: &[std::net::IpAddr]) {
    eventually("all addresses are in the sets", async || {
        let rows = world.northbound.rows()?;
        let of_name = rows.iter().filter(|row| row.dns_name() == Some(NAME));
        let there: Vec<_> = of_name.flat_map(|row| row.sorted_addresses()).collect();
        let missing: Vec<_> = told.iter().filter(|ip| !there.contains(ip)).collect();
        let whole = missing.is_empty().then_some(());
        whole.ok_or_else(|| format!("{missing:?} are missing"))
    })
    .await;
}
