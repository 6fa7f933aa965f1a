//! Removed EgressFirewalls: the collector's statuses, held names, and reports.

use std::{fs, os::unix::fs::symlink};

use proto::api::{DEGRADED, DnsNameResolver, Family};
use tests::{
    programs::Program,
    wait::eventually,
    world::{Setup, World},
};

const NAME: &str = "www.example.com.";

const TENANTS: usize = 12;

fn tenant(i: usize) -> (String, String) {
    (format!("tenant-{i}"), format!("t{i}.example.com."))
}

/// A world in which many namespaces have a name each, besides that of the namespace `team`.
async fn world() -> World {
    let zone = (0..TENANTS).map(|i| format!("t{i} IN A 192.0.2.{}\n", 100 + i));
    let zone: String = zone.chain(["www IN A 192.0.2.10\n".to_owned()]).collect();
    let world = World::start(Setup {
        zone: &zone,
        allow: &[NAME],
        ..Setup::default()
    })
    .await;
    for (namespace, name) in (0..TENANTS).map(tenant) {
        world.store.allow(&namespace, &[&name]);
    }
    for (i, (_, name)) in (0..TENANTS).map(tenant).enumerate() {
        let address = format!("192.0.2.{}", 100 + i);
        world.expect_flow(&name, Family::V4, &address).await;
    }
    world.look_up(NAME).await;
    world.expect_set(NAME, Family::V4, &["192.0.2.10"]).await;
    world
}

/// Waits until the program is ready with this text in `/readyz`.
async fn expect_words(program: &Program, words: &str) {
    eventually(&format!("/readyz says {words:?}"), async || {
        match program.admin().get("/readyz").await {
            Ok((200, body)) if body.contains(words) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

/// The reason in the entry of `spec.name`, if the status has no address.
fn reason_without_addresses(object: &DnsNameResolver) -> Option<String> {
    let names = &object.status.as_ref()?.resolved_names;
    let [own] = names.as_slice() else {
        return None;
    };
    let degraded = own.conditions.iter().find(|it| it.type_ == DEGRADED)?;
    let is_own = own.dns_name == object.spec.name && own.resolved_addresses.is_empty();
    is_own.then(|| degraded.reason.clone())
}

async fn expect_no_object(world: &World, name: &str) {
    eventually(&format!("the object of {name} is gone"), async || {
        world
            .store
            .object(name)
            .map_or(Ok(()), |it| Err(format!("{it:?}")))
    })
    .await;
}

#[tokio::test]
async fn an_object_says_that_its_rule_ended_before_it_goes() {
    let world = world().await;
    world.store.remove_egress_firewall("team");
    eventually("the object says NoRule", async || {
        let object = world.store.object(NAME).ok_or("it is gone")?;
        let reason = reason_without_addresses(&object);
        (reason.as_deref() == Some("NoRule"))
            .then_some(())
            .ok_or_else(|| format!("{object:?}"))
    })
    .await;
    expect_no_object(&world, NAME).await;
    world.expect_no_addresses(NAME).await;
}

#[tokio::test]
async fn many_egress_firewalls_that_go_at_once_take_nothing_with_them() {
    let world = world().await;
    let history = world.monitor().await;
    for (namespace, _) in (0..TENANTS).map(tenant) {
        world.store.remove_egress_firewall(&namespace);
    }
    let held = format!("names-in-use: ok, but {TENANTS} names are held");
    expect_words(&world.collector, &held).await;
    let metric = world
        .collector
        .admin()
        .metric("egress_collector_held_names", &[]);
    assert_eq!(metric.await.unwrap(), TENANTS as f64);
    // Their addresses are still updated.
    world.set_zone(2, "t0 IN A 192.0.2.99").await;
    let (_, first) = tenant(0);
    world.expect_flow(&first, Family::V4, "192.0.2.99").await;
    // The removal of one of the remaining ones is believed.
    world.store.remove_egress_firewall("team");
    expect_no_object(&world, NAME).await;
    for (namespace, name) in (0..TENANTS).map(tenant) {
        assert!(world.store.object(&name).is_some(), "{name}");
        world.store.allow(&namespace, &[&name]);
    }
    expect_words(&world.collector, "names-in-use: ok\n").await;
    world.expect_no_addresses(NAME).await;
    let departures = history.departures().await;
    assert!(
        departures.iter().all(|it| it.contains("192.0.2.10")),
        "{departures:?}"
    );
}

#[tokio::test]
async fn many_egress_firewalls_that_return_one_by_one_take_nothing_with_them() {
    let world = world().await;
    let history = world.monitor().await;
    for (namespace, _) in (0..TENANTS).map(tenant) {
        world.store.remove_egress_firewall(&namespace);
    }
    let held = |count| format!("names-in-use: ok, but {count} names are held");
    expect_words(&world.collector, &held(TENANTS)).await;
    // The last of them are few, and still missing.
    for (i, (namespace, name)) in (0..TENANTS).map(tenant).enumerate() {
        world.store.allow(&namespace, &[&name]);
        match TENANTS - i - 1 {
            0 => expect_words(&world.collector, "names-in-use: ok\n").await,
            left => expect_words(&world.collector, &held(left)).await,
        }
    }
    assert_eq!(history.departures().await, [""; 0]);
    for (_, name) in (0..TENANTS).map(tenant) {
        let object = world.store.object(&name).unwrap();
        assert_eq!(reason_without_addresses(&object), None);
    }
    // The log does not repeat a message whose count changed.
    let messages = world.collector.messages();
    let texts = messages.iter().map(ToString::to_string);
    let told: Vec<_> = texts.filter(|it| it.contains("names are held")).collect();
    assert_eq!(told.len(), 1, "{told:?}");
}

#[tokio::test]
async fn what_one_tenant_does_to_its_own_takes_no_collector_out_of_its_service() {
    let world = world().await;
    let history = world.monitor().await;
    let file = world.store.egress_firewall("new");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "apiVersion: k8s.ovn.org/v1\nspec: [half").unwrap();
    expect_words(
        &world.collector,
        "egress-firewalls: ok, but 1 cannot be read",
    )
    .await;
    // Others may change their rules meanwhile.
    world.store.allow("tenant-0", &["late.example.com"]);
    let (_, first) = tenant(0);
    expect_no_object(&world, &first).await;
    fs::remove_file(&file).unwrap();
    expect_words(&world.collector, "egress-firewalls: ok\n").await;

    world.expect_no_addresses(&first).await;
    let departures = history.departures().await;
    assert!(
        departures.iter().all(|it| it.contains("192.0.2.100")),
        "{departures:?}"
    );
}

#[tokio::test]
async fn a_folder_that_one_tenant_breaks_holds_up_no_other() {
    let mut world = world().await;
    let history = world.monitor().await;
    let broken = world.store.egress_firewall("tenant-1");
    let broken = broken.parent().unwrap();
    fs::remove_dir_all(broken).unwrap();
    symlink("egressfirewalls", broken).unwrap();
    let [(_, kept), (_, second), (_, third), (_, fourth)] = [1, 2, 3, 4].map(tenant);
    world.store.remove_egress_firewall("tenant-2");
    expect_no_object(&world, &second).await;

    // A collector that never could read it reports that, and serves the others.
    world.restart_asking(&[]).await;
    let words = "egress-firewalls: ok, but 1 cannot be read";
    expect_words(&world.collector, words).await;
    world.store.allow("late", &[&second]);
    world.expect_flow(&second, Family::V4, "192.0.2.102").await;
    world.store.remove_egress_firewall("tenant-3");
    expect_no_object(&world, &third).await;
    assert!(world.store.object(&kept).is_some());
    fs::remove_file(broken).unwrap();
    world.store.allow("tenant-1", &[&kept]);
    expect_words(&world.collector, "egress-firewalls: ok\n").await;

    // The cleanup of a namespace removes its name.
    let gone = world.store.egress_firewall("tenant-4");
    let gone = gone.parent().unwrap().parent().unwrap();
    fs::remove_dir_all(gone).unwrap();
    expect_no_object(&world, &fourth).await;
    for name in [&third, &fourth] {
        world.expect_no_addresses(name).await;
    }
    let departures = history.departures().await;
    let kept = departures.iter().filter(|it| it.contains("192.0.2.101"));
    assert_eq!(kept.count(), 0, "{departures:?}");
}
