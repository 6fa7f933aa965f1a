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
    /// Tells of the new addresses in a written status. Must be called before the status is applied
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
        let mut new = status.addresses().filter(|it| !before.contains(it));
        let addresses: Vec<(DnsName, IpAddr)> = new
            .by_ref()
            .take(MOST)
            .map(|(name, ip)| (name.clone(), ip))
            .collect();
        if addresses.is_empty() {
            return;
        }
        let version = written.metadata.resource_version.as_ref();
        shared.watch.offer(WatchEvent::Status(NewStatus {
            rule: entry.memory.list().spec().clone(),
            more: new.count(),
            addresses,
            object: key.clone(),
            resource_version: version.cloned().unwrap_or_default(),
            acknowledged_at: self.now,
            namespaces: names_of(&shared.clients, entry.with_rule.iter().copied()),
        }));
    }
}
