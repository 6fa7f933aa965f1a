//! The store in a folder: whether its objects can be read.

use std::path::Path;

use k8s_openapi::api::networking::v1::NetworkPolicy;
use proto::api::{DnsNameResolver, DnsResolver, EgressFirewall, IpMap, NetworkSet};
use runtime::{
    inspect::text::few,
    store::{Kind, Scope, Store, dir::DirStore},
};

use super::{
    programs::MOST_NAMED,
    report::{Finding, Topic},
};

pub(crate) async fn folder(path: &Path) -> Vec<Finding> {
    let mut topic = Topic::new("Folder");
    let store = match DirStore::open(path) {
        Ok(store) => store,
        Err(error) => {
            topic.fault(
                format!("{error:#}"),
                "name the folder that --store of the programs has",
            );
            return topic.into();
        }
    };
    let counts = [
        (
            "EgressFirewall",
            count::<EgressFirewall>(&mut topic, &store).await,
        ),
        (
            "DNSNameResolver",
            count::<DnsNameResolver>(&mut topic, &store).await,
        ),
        (
            "DNSResolver",
            count::<DnsResolver>(&mut topic, &store).await,
        ),
        (
            "NetworkPolicy",
            count::<NetworkPolicy>(&mut topic, &store).await,
        ),
        ("IPMap", count::<IpMap>(&mut topic, &store).await),
        ("NetworkSet", count::<NetworkSet>(&mut topic, &store).await),
    ];
    topic.or_ok(|| {
        let there = counts.iter().filter(|(_, count)| *count > 0);
        let there: Vec<String> = there
            .map(|(kind, count)| format!("{count} {kind}"))
            .collect();
        match there.as_slice() {
            [] => "it has no objects".to_owned(),
            there => format!("these objects can be read: {}", there.join(", ")),
        }
    })
}

/// The number of objects of a kind. Tells which of them cannot be read.
async fn count<K: Kind>(topic: &mut Topic, store: &DirStore) -> usize {
    let kind = K::kind(&());
    let keys = match store.list_keys::<K>(&Scope::All).await {
        Ok(keys) => keys,
        Err(error) => {
            topic.fault(
                format!("{kind} objects cannot be listed: {error}"),
                "see the rights of the folder",
            );
            return 0;
        }
    };
    let mut unreadable = Vec::new();
    for key in &keys {
        if let Err(error) = store.get::<K>(key).await {
            unreadable.push(format!("{key}: {error}"));
        }
    }
    if !unreadable.is_empty() {
        topic.fault(
            format!(
                "{kind} objects cannot be read: {}",
                few(unreadable.iter(), MOST_NAMED)
            ),
            "mend these manifests: docs/run-without-kubernetes.md",
        );
    }
    keys.len()
}
