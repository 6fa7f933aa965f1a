//! The policy-writer with a folder.

use std::{fs, path::Path};

use serde_json::{Value, json};
use tests::{programs::Program, wait::eventually, workdir::Workdir};

const NAME: &str = "www.example.com.";

fn write(path: &Path, object: &Value) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let text = serde_saphyr::to_string(object).unwrap();
    let temporary = path.with_extension("new");
    fs::write(&temporary, text).unwrap();
    fs::rename(&temporary, path).unwrap();
}

fn name(addresses: &[&str]) -> Value {
    let addresses: Vec<_> = addresses
        .iter()
        .map(|ip| json!({"ip": ip, "ttlSeconds": 30, "lastLookupTime": "2026-01-01T00:00:00Z"}))
        .collect();
    json!({
        "apiVersion": "network.openshift.io/v1alpha1",
        "kind": "DNSNameResolver",
        "spec": {"name": NAME},
        "status": {"resolvedNames": [{"dnsName": NAME, "resolvedAddresses": addresses}]},
    })
}

fn read(path: &Path) -> Option<Value> {
    let text = fs::read_to_string(path).ok()?;
    serde_saphyr::from_str(&text).ok()
}

async fn has(path: &Path, pointer: &str, expected: Value) {
    eventually(&format!("{pointer} of {}", path.display()), async || {
        let found = read(path).and_then(|object| object.pointer(pointer).cloned());
        if found.as_ref() == Some(&expected) {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_of_policies_follow_files_of_names() {
    let workdir = Workdir::new();
    let store = workdir.join("store");
    let file = |kind: &str| store.join(format!("team-a/{kind}/partners.yaml"));
    let names = store.join("names/dnsnameresolvers/www.yaml");
    for (kind, set) in [("partners", false), ("sets", true)] {
        let mut object = json!({
            "apiVersion": "dns.k8s.delta10.nl/v1alpha1",
            "kind": "DNSResolver",
            "spec": {"domainList": ["www.example.com"]},
        });
        if set {
            object["spec"]["generateType"] = json!("CalicoNetworkSet");
        }
        write(
            &store.join(format!("team-a/dnsresolvers/{kind}.yaml")),
            &object,
        );
    }
    write(&names, &name(&["192.0.2.1"]));
    let address = format!("dir:{}", store.display());
    let flags = [
        "--store",
        &address,
        "--dnsresolver-objects-namespace",
        "names",
        "--leader-elect",
    ];
    let args = flags.map(str::to_owned).to_vec();
    let mut program = Program::start(workdir.path(), "policy-writer", args).await;
    program.ready().await;
    let to = |addresses: &[&str]| {
        let block = |ip: &&str| json!({"ipBlock": {"cidr": format!("{ip}/32")}});
        let to: Vec<_> = addresses.iter().map(block).collect();
        json!([{"to": to}])
    };
    has(&file("networkpolicies"), "/spec/egress", to(&["192.0.2.1"])).await;
    has(
        &file("ipmaps"),
        "/data/domains/0/ips",
        json!(["192.0.2.1/32"]),
    )
    .await;
    let set = store.join("team-a/networksets/sets.yaml");
    has(&set, "/spec/nets", json!(["192.0.2.1/32"])).await;
    has(&file("dnsresolvers"), "/status/ready", json!(true)).await;

    // Changes of people are put right, also those of a killed program's time.
    program.process().kill();
    let mut policy = read(&file("networkpolicies")).unwrap();
    policy["spec"]["egress"] = json!([{}]);
    write(&file("networkpolicies"), &policy);
    write(&names, &name(&["192.0.2.1", "192.0.2.2"]));
    program.restart().await;
    let both = to(&["192.0.2.1", "192.0.2.2"]);
    has(&file("networkpolicies"), "/spec/egress", both.clone()).await;
    fs::remove_file(&names).unwrap();
    fs::remove_file(file("networkpolicies")).unwrap();
    has(&file("networkpolicies"), "/spec/egress", both).await;

    // Nothing else deletes the objects of a DNSResolver that is gone.
    fs::remove_file(file("dnsresolvers")).unwrap();
    for kind in ["networkpolicies", "ipmaps"] {
        eventually(&format!("{kind} are deleted"), async || {
            let is_there = file(kind).exists();
            (!is_there)
                .then_some(())
                .ok_or_else(|| program.process().log())
        })
        .await;
    }
    assert!(set.exists());
    let status = program.process().terminate().await;
    assert!(status.success(), "{status}");

    // At the start the folder of a namespace is not mounted. A policy of another namespace shows that the program works.
    let resolvers = store.join("team-a/dnsresolvers");
    fs::rename(&resolvers, workdir.join("away")).unwrap();
    let other = json!({
        "apiVersion": "dns.k8s.delta10.nl/v1alpha1",
        "kind": "DNSResolver",
        "spec": {"domainList": ["www.example.com"]},
    });
    write(&store.join("team-b/dnsresolvers/partners.yaml"), &other);
    write(&names, &name(&["192.0.2.9"]));
    program.restart().await;
    let policy = store.join("team-b/networkpolicies/partners.yaml");
    has(&policy, "/spec/egress", to(&["192.0.2.9"])).await;
    let resolver = store.join("team-b/dnsresolvers/partners.yaml");
    has(&resolver, "/status/ready", json!(true)).await;
    assert!(set.exists());
    fs::rename(workdir.join("away"), &resolvers).unwrap();
    has(&set, "/spec/nets", json!(["192.0.2.9/32"])).await;
}
