//! What is known of one name, without a change of it: for people.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use proto::api::DnsName;

use super::{Reconciler, change_log::Entry, plan::Plan};
use crate::{desired::Skip, references::NorthboundReplica};

impl Reconciler {
    /// How the sets of a name differ now, and what becomes of it.
    pub fn look(&self, name: &DnsName, replica: &NorthboundReplica, now: Instant) -> Plan {
        self.state.look(name, replica, now)
    }

    /// Whether its sets differed when they were looked at last.
    pub fn differs(&self, name: &DnsName) -> bool {
        self.state.differs(name)
    }

    /// What was done to its sets of late, the last first.
    pub fn history(&self, name: &DnsName) -> impl Iterator<Item = &Entry> {
        self.change_log.of(name)
    }

    /// For how long the server will not be asked again to change the sets of a name, as it refused to.
    pub fn refused_for(&self, name: &DnsName, now: Instant) -> Option<Duration> {
        let refused = self.refused.get(name)?;
        Some(refused.until.saturating_duration_since(now))
    }

    /// Why an address stands in no set, whatever statuses say.
    ///
    /// # Errors
    /// The reason.
    pub fn admits(&self, address: IpAddr) -> Result<(), Skip> {
        let filter = self.state.desired.filter();
        filter.admit(&address.to_string()).map(drop)
    }
}
