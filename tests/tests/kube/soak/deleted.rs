//! Many EgressFirewalls are deleted at once, and ovn-kubernetes removes its ACLs later.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams},
};
use proto::api::{DnsNameResolver, EgressFirewall, Family::V4};
use tests::{
    kube::ApiServer,
    ovnkube::set_name,
    soak::{is_long, or_long},
    wait::{eventually, eventually_within},
};
use tokio::time::sleep;

use crate::{
    collectors::{Collector, egress_firewall},
    databases::{PATIENCE, Ruled, address, make_objects, names},
};

/// Tells the ovn-writer that ovn-kubernetes manages the database.
const MANAGED: &str = "--managed-by-ovn-kubernetes";

/// An unused name, whose object the test creates and deletes.
const UNUSED: &str = "unused.example.com.";

/// Enough for the collector's hold when many vanish at once.
const HELD: Duration = Duration::from_secs(15 * 60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sets_are_emptied_when_their_acls_are_gone_and_not_before() {
    // Of 24 names ten may vanish at once.
    let (count, deleted) = or_long((24, 10), (500, 500));
    let server = ApiServer::start().await;
    let namespace = server.namespace().await;
    let names = names(count);
    let unused = [UNUSED.to_owned()];
    let mut teams = Vec::new();
    for _ in 0..count {
        teams.push(server.namespace().await);
    }
    let manage = ["--manage-objects", "always"];
    let collector = Collector::start(&server.kubeconfig(), &namespace, &manage).await;
    for (n, name) in names.iter().enumerate() {
        collector.nameserver.set(name, &[&address(n)], 3600);
    }
    let client = server.client().await;
    let firewalls = |team: &str| Api::<EgressFirewall>::namespaced(client.clone(), team);
    stream::iter(teams.iter().zip(&names))
        .for_each_concurrent(16, async |(team, name)| {
            let firewall = egress_firewall(&[name]);
            let made = firewalls(team)
                .create(&PostParams::default(), &firewall)
                .await;
            made.unwrap();
        })
        .await;
    make_objects(&server, &namespace, &unused).await;
    let database = Ruled::start(&names, true).await;
    database.northbound.create_namespace_set();
    let (set, northbound) = (set_name(UNUSED, V4), &database.northbound);
    northbound.create_set(&set, UNUSED, V4, "[]");
    let writer = database
        .writer(&server.kubeconfig(), &namespace, &[MANAGED])
        .await;
    database
        .expect(&[&names[..], &unused].concat(), true, PATIENCE)
        .await;
    writer.ready().await;

    let began = Instant::now();
    stream::iter(&teams[..deleted])
        .for_each_concurrent(16, async |team| {
            let gone = firewalls(team)
                .delete("default", &DeleteParams::default())
                .await;
            gone.unwrap();
        })
        .await;
    let objects: Api<DnsNameResolver> = Api::namespaced(client.clone(), &namespace);
    let left = async || {
        let listed = objects.list(&ListParams::default()).await;
        listed
            .map(|list| list.items.len())
            .map_err(|error| error.to_string())
    };
    if is_long() {
        sleep(Duration::from_secs(30)).await;
    } else {
        eventually("their objects are gone", async || {
            let left = left().await?;
            (left == count - deleted + 1)
                .then_some(())
                .ok_or_else(|| left.to_string())
        })
        .await;
        let params = DeleteParams::default();
        objects.delete("unused.example.com", &params).await.unwrap();
        database.expect(&unused, false, PATIENCE).await;
    }
    database.expect(&names, true, PATIENCE).await;
    database.northbound.remove_acls(&database.acls[..deleted]);
    let acls = began.elapsed();
    database.expect(&names[..deleted], false, HELD).await;
    let emptied = began.elapsed();
    eventually_within(HELD, "their objects are gone", async || {
        let left = left().await?;
        (left <= count - deleted + 1)
            .then_some(())
            .ok_or_else(|| left.to_string())
    })
    .await;
    println!(
        "{deleted} EgressFirewalls deleted: their ACLs went after {acls:?}, their sets were empty after {emptied:?}"
    );
    assert_eq!(database.closings(), [""; 0]);
    database.expect(&names[deleted..], true, PATIENCE).await;
    writer.ready().await;
}
