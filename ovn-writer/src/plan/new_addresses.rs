//! The last new addresses of rows, with their times.

use std::{collections::VecDeque, net::IpAddr, time::Instant};

use proto::{
    api::{DnsName, address_set_id, address_set_name},
    facts::MOST_NEW_ADDRESSES,
};

use super::{batch::Planned, change::Change, set_plan::Trigger};
use crate::references::NorthboundReplica;

/// The last addresses that an event of the store brought into a row, the oldest first.
#[derive(Debug, Default)]
pub struct NewAddresses(VecDeque<NewAddress>);

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NewAddress {
    /// `spec.name` of the object.
    pub rule: DnsName,
    pub address: IpAddr,
    /// When the event of the object was received.
    pub received: Instant,
    /// When the acknowledgement of the database was read.
    pub committed: Instant,
    /// `name` of the row.
    pub set: Box<str>,
}

impl NewAddresses {
    pub fn iter(&self) -> impl Iterator<Item = &NewAddress> {
        self.0.iter()
    }

    /// When the address was last written into the set of this `name`.
    pub(crate) fn committed(&self, set: &str, address: IpAddr) -> Option<Instant> {
        let mut latest = self.0.iter().rev();
        let found = latest.find(|it| it.address == address && *it.set == *set);
        found.map(|it| it.committed)
    }

    /// Records the changes of a name in a finished transaction.
    pub(super) fn record(&mut self, planned: &Planned, replica: &NorthboundReplica, now: Instant) {
        let Some(since) = planned.mark.since else {
            return;
        };
        for finding in &planned.findings {
            let (set, addresses): (Box<str>, _) = match &finding.change {
                Change::Create { set, addresses, .. } => {
                    let rule = planned.name.as_str();
                    let id = address_set_id(&set.controller, rule, set.family);
                    (address_set_name(&id).into(), addresses)
                }
                Change::Mutate { uuid, insert, .. } if finding.trigger == Trigger::Store => {
                    let Some(row) = replica.0.get(*uuid) else {
                        continue;
                    };
                    (row.name().into(), insert)
                }
                Change::Mutate { .. } | Change::Delete { .. } => continue,
            };
            // A full ring would drop the first of more than it keeps.
            let skipped = addresses.len().saturating_sub(MOST_NEW_ADDRESSES);
            for address in addresses.iter().skip(skipped) {
                if self.0.len() >= MOST_NEW_ADDRESSES {
                    self.0.pop_front();
                }
                self.0.push_back(NewAddress {
                    rule: planned.name.clone(),
                    address: *address,
                    received: since,
                    committed: now,
                    set: set.clone(),
                });
            }
        }
    }
}
