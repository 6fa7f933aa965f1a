//! The store in a folder: whether its objects can be read.

use std::{path::Path, pin::pin};

use futures_util::StreamExt;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use proto::api::{DnsNameResolver, DnsResolver, EgressFirewall, IpMap, NetworkSet};
use runtime::{
    inspect::text::few,
    store::{Event, Kind, Scope, Store, dir::DirStore},
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

/// The number of objects of a kind. Reports faults of their manifests.
async fn count<K: Kind>(topic: &mut Topic, store: &DirStore) -> usize {
    let kind = K::kind(&());
    let mut events = pin!(store.watch::<K>(Scope::All));
    let objects = loop {
        match events.next().await {
            Some(Event::Synced(objects)) => break objects.len(),
            Some(Event::OutOfSync(reason)) => {
                topic.fault(
                    format!("{kind} objects cannot be listed: {reason}"),
                    "see the rights of the folder",
                );
                return 0;
            }
            Some(_) => {}
            None => return 0,
        }
    };
    let bad = store.bad_objects().list();
    if !bad.is_empty() {
        let bad = bad.iter().map(|it| format!("{}: {}", it.place, it.fault));
        topic.fault(
            format!("{kind} manifests are at fault: {}", few(bad, MOST_NAMED)),
            "mend these manifests: docs/without-kubernetes.md",
        );
    }
    objects
}
