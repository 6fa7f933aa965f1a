//! The names that a wildcard found, and who asked for them.

use std::{collections::BTreeSet, net::IpAddr};

use proto::api::DnsName;
use runtime::clock::Timestamp;

use super::{Count, Crowd, Kept, NameState, leaving::Leaving};

impl NameState {
    /// The clients and the number of addresses of each name that the wildcard found.
    pub fn found(&self, kept: &Kept<'_>) -> impl Iterator<Item = (&[IpAddr], Count)> {
        let found = self.names.iter().filter(|it| it.dns_name != self.spec);
        found.map(|name| (&*name.askers.0, kept.count(name)))
    }

    /// The clients that asked for a name, as far as they are known.
    pub fn askers_of(&self, name: &DnsName) -> &[IpAddr] {
        self.name(name).map_or(&[], |name| &name.askers.0)
    }

    /// Forgets names that the wildcard found, asking for each in the order in which they leave a full wildcard whether it goes: by who asked
    /// for it, and how many addresses it has. Returns what went.
    pub fn drop_found(
        &mut self,
        now: Timestamp,
        crowd: Crowd<'_>,
        kept: &Kept<'_>,
        mut goes: impl FnMut(&[IpAddr], Count) -> bool,
    ) -> Vec<(DnsName, IpAddr)> {
        let leaving = Leaving::of(self, crowd, now, |name| name.addresses.len());
        let going = leaving.filter(|name| goes(&name.askers.0, kept.count(name)));
        let going: BTreeSet<DnsName> = going.map(|name| name.dns_name.clone()).collect();
        self.take_away(now, |name, _| going.contains(&name.dns_name))
    }
}
