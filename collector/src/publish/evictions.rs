//! Reports evictions in Events on the objects.

use std::collections::BTreeSet;

use kube::Resource;
use names::{Evictions, Limits, Names};
use proto::api::{DnsName, KubeOvnDnsNameResolver};
use runtime::kube_events::{Reporter, Severity};

use super::{name_objects::NameObjects, policy::ObjectPolicy};
use crate::rules::{
    Source,
    notices::{Notice, Notices},
};

/// Names whose evictions are not reported yet.
#[derive(Debug, Default)]
pub(super) struct EvictionLog {
    pub(super) unreported: BTreeSet<DnsName>,
}

impl EvictionLog {
    /// Reports evictions of names that have an object.
    pub(super) fn report(
        &mut self,
        names: &Names,
        by_name: &foldhash::HashMap<DnsName, Box<NameObjects>>,
        policy: &ObjectPolicy,
        notices: &Notices,
        reporter: &Reporter,
    ) {
        self.unreported.retain(|name| {
            let Some(entry) = names.get(name) else {
                return false;
            };
            let objects = by_name.get(name).map(|it| &*it.objects);
            let Some(objects) = objects.filter(|objects| !objects.is_empty()) else {
                return true;
            };
            if entry.is_used() && entry.rule_use().denied {
                notices.notify(Notice::DeniedLeftOut(name.clone()));
            }
            for object in objects {
                let mut about = object.bare(policy, name).object_ref(&());
                about.resource_version = None;
                if object.source == Source::KubeOvn {
                    let version = KubeOvnDnsNameResolver::api_version(&());
                    about.api_version = Some(version.into_owned());
                }
                for (reason, note) in notes(name, &entry.evicted(), entry.limits()) {
                    reporter.report(about.clone(), Severity::Warning, reason, note);
                }
            }
            false
        });
    }
}

fn notes(
    rule_name: &DnsName,
    evictions: &Evictions,
    limits: &Limits,
) -> impl Iterator<Item = (&'static str, String)> {
    let addresses = (evictions.addresses > 0).then(|| {
        let note = format!(
            "{rule_name} has more addresses than one of the caps allows: {} addresses of a name, {} of an object, where a name counts as three. \
             The collector removes the addresses that it saw longest ago, and Allow rules no longer open them",
            limits.addresses_per_name, limits.object_size
        );
        ("AddressesEvicted", note)
    });
    let names = (evictions.names > 0).then(|| {
        let note = format!(
            "{rule_name} has more names than the cap allows: {}. The collector removes names that clients asked for in one minute only, and then \
             names of the client with the most, those asked for longest ago first. Allow rules no longer open their addresses",
            limits.names_per_wildcard
        );
        ("NamesEvicted", note)
    });
    addresses.into_iter().chain(names)
}
