//! The event of `/watch` for a status that the store acknowledged.

use std::{collections::HashSet, net::IpAddr};

use proto::api::{DnsName, DnsNameResolver};
use runtime::store::ObjectKey;

use super::{
    entry::names_of,
    updates::ObjectUpdate,
    watch_events::{MOST, NewStatus, WatchEvent},
};
use crate::state::Stored;

impl ObjectUpdate<'_> {
    /// Tells of the new addresses in a written status, and of those that it lost. Must be called before the status is applied
    /// to the object's name.
    pub(super) fn acknowledged(&self, key: &ObjectKey, written: &DnsNameResolver) {
        let shared = &self.names.shared;
        if !shared.watch.is_open() {
            return;
        }
        let (Some(status), Some(entry)) =
            (&written.status, self.names.entries.get(&*written.spec.name))
        else {
            return;
        };
        let status = Stored::new(status, &entry.memory);
        let mut objects = entry.objects.iter();
        let before = objects.find(|object| *object.name == *key.name);
        let before: HashSet<_> = before
            .into_iter()
            .flat_map(|object| object.status.addresses())
            .collect();
        let after: HashSet<_> = status.addresses().collect();
        let (addresses, more) = most(status.addresses().filter(|it| !before.contains(it)));
        let (removed, more_removed) = most(before.iter().copied().filter(|it| !after.contains(it)));
        if addresses.is_empty() && removed.is_empty() {
            return;
        }
        let version = written.metadata.resource_version.as_ref();
        shared.watch.offer(WatchEvent::Status(NewStatus {
            rule: entry.memory.list().spec().clone(),
            addresses,
            more,
            removed,
            more_removed,
            object: key.clone(),
            resource_version: version.cloned().unwrap_or_default(),
            acknowledged_at: self.now,
            namespaces: names_of(&shared.clients, entry.in_use.with_rule.iter().copied()),
        }));
    }
}

/// The addresses to list, and the number of others.
fn most<'a>(
    mut addresses: impl Iterator<Item = (&'a DnsName, IpAddr)>,
) -> (Vec<(DnsName, IpAddr)>, usize) {
    let listed = addresses.by_ref().take(MOST);
    let listed = listed.map(|(name, ip)| (name.clone(), ip)).collect();
    (listed, addresses.count())
}
