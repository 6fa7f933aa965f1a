//! A later version's additions to the data, or changes of it, cost no address.

use std::{
    fs,
    path::{Path, PathBuf},
};

use proto::api::Family;
use tests::{
    northbound::{Northbound, read_rows},
    programs::Program,
    store::Store,
    wait::eventually,
    workdir::Workdir,
    world::{Setup, World},
};

const ZONE: &str = "
www     7200 IN A     192.0.2.10
www     7200 IN A     192.0.2.11
www     7200 IN AAAA  2001:db8::10
*.apps  7200 IN A     192.0.2.30
";

const WWW: &str = "www.example.com.";
const APPS: &str = "*.apps.example.com.";

fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures/0.1")
        .join(path)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// The folder, the store and the database as version 0.1 left them, with a rule for each set of addresses.
async fn left_behind(more: &[&str]) -> (Workdir, Store, Northbound) {
    let (workdir, store) = World::prepare(&Setup {
        zone: ZONE,
        ..Setup::default()
    });
    copy(&fixture("store"), store.path());
    let northbound = Northbound::start(workdir.path()).await;
    let rows = fs::read_to_string(fixture("address-sets.json")).unwrap();
    let rows = rows.replace("STORE", &store.address());
    for (row, priority) in read_rows(&rows).unwrap().into_iter().zip(1..) {
        let ids = row.external_ids.iter();
        let mut columns: Vec<String> = ids
            .map(|(key, value)| format!("external_ids:{key}=\"{value}\""))
            .collect();
        columns.push(format!("name={}", row.name));
        let quoted: Vec<_> = row.addresses.iter().map(|ip| format!("\"{ip}\"")).collect();
        columns.push(format!("addresses=[{}]", quoted.join(",")));
        columns.extend(more.iter().copied().map(str::to_owned));
        let create = ["create", "Address_Set"].into_iter();
        let create: Vec<_> = create.chain(columns.iter().map(String::as_str)).collect();
        northbound.nbctl(&create).unwrap();
        northbound.create_acl("allow", priority, &[&row.name], false);
    }
    (workdir, store, northbound)
}

fn uuids(world: &World) -> Vec<(String, String)> {
    let rows = world.northbound.rows().unwrap().into_iter();
    let mut uuids: Vec<_> = rows.map(|row| (row.name, row.uuid)).collect();
    uuids.sort();
    uuids
}

async fn expect_all(world: &World) {
    let www = ["192.0.2.10", "192.0.2.11"];
    world.expect_set(WWW, Family::V4, &www).await;
    world.expect_set(WWW, Family::V6, &["2001:db8::10"]).await;
    world.expect_set(APPS, Family::V4, &["192.0.2.30"]).await;
}

/// Whether it logged a line with both of these texts.
fn says(program: &Program, one: &str, other: &str) -> Result<(), String> {
    let messages = program.messages();
    let mut texts = messages.iter().map(ToString::to_string);
    let found = texts.any(|text| text.contains(one) && text.contains(other));
    found.then_some(()).ok_or_else(|| format!("{messages:?}"))
}

#[tokio::test]
async fn additions_of_a_later_version_are_ignored_and_changes_are_refused() {
    let more = ["external_ids:ovn-writer/format=\"9\""];
    let (workdir, store, northbound) = left_behind(&more).await;
    let file = |name: &str| store.objects_folder().join(name);
    // Additional fields in an object, and in a rule.
    let apps = fs::read_to_string(file("dns-cf5464d7b.yaml")).unwrap();
    let apps = apps
        .replace(
            "  labels:\n",
            "  annotations:\n    example.com/later: kept\n  labels:\n",
        )
        .replace("spec:\n", "spec:\n  depth: 2\n")
        .replace("status:\n", "status:\n  observedGeneration: 7\n")
        .replace("    dnsName:", "    source: [one, other]\n    dnsName:")
        .replace(
            "      ttlSeconds:",
            "      weight: {of: 3}\n      ttlSeconds:",
        );
    fs::write(file("dns-cf5464d7b.yaml"), apps).unwrap();
    let rules = store.egress_firewall("team");
    let rule = fs::read_to_string(&rules).unwrap();
    let rule = rule
        .replace(
            "  - type: Allow\n",
            "  - type: Allow\n    schedule: {from: 8}\n",
        )
        .replace(
            "\n  namespace:",
            "\n  annotations:\n    dnsnameresolver.network.openshift.io/later: '7'\n  namespace:",
        );
    fs::write(&rules, rule).unwrap();
    // Another version of the API.
    let www = fs::read_to_string(file("dns-5dd68c7c99.yaml")).unwrap();
    fs::write(file("dns-5dd68c7c99.yaml"), www.replace("v1alpha1", "v7")).unwrap();

    let mut world = World::start_with(workdir, store, northbound, &[]).await;
    let (history, rows) = (world.monitor().await, uuids(&world));
    world.settle().await;
    for program in [&world.collector, &world.ovn_writer] {
        eventually("it says which object it cannot read", async || {
            says(program, "dns-5dd68c7c99", "v1alpha1")
        })
        .await;
    }
    // A new name under the wildcard is written to the object that has unknown fields.
    world
        .expect_flow_through(APPS, "new.apps.example.com.", Family::V4, "192.0.2.30")
        .await;
    eventually("it is in the status", async || {
        let entry = world.store.resolved(APPS, "new.apps.example.com.");
        entry.map(drop).ok_or_else(|| "it is not".to_owned())
    })
    .await;
    let apps = fs::read_to_string(world.store.objects_folder().join("dns-cf5464d7b.yaml")).unwrap();
    assert!(apps.contains("example.com/later: kept"), "{apps}");
    expect_all(&world).await;
    assert_eq!(uuids(&world), rows);
    assert_eq!(history.departures().await, [""; 0]);
    for program in [&mut world.collector, &mut world.ovn_writer] {
        assert!(program.process().ended().is_none());
    }
}
