//! Reports to the authors of rules, from the tasks that find a reason to the task that [knows the
//! rules](crate::rules).

use std::net::IpAddr;

use metrics::counter;
use proto::api::DnsName;
use tokio::sync::mpsc;

use crate::{clients::Namespace, namespaces::NamespaceQuota};

/// The most waiting reports. Dropping some is harmless.
const QUEUE: usize = 64;

/// Why names or addresses were left out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Addresses of a name in a Deny rule: traffic to them is not blocked.
    DeniedAddresses,
    /// Names under a wildcard whose client queried too many new ones.
    NewNames,
}

/// Names or addresses that were left out.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum LeftOut {
    /// Of a name, as rules have it.
    OfName(DnsName, Kind),
    /// Names of a namespace that exceeds this quota, or that has the most while all together exceed
    /// theirs.
    OfNamespace(Namespace, NamespaceQuota),
}

/// The sending end, which never blocks. Clones share the queue; the default has none.
#[derive(Clone, Debug, Default)]
pub struct Notices(Option<mpsc::Sender<LeftOut>>);

impl Notices {
    /// The sender, and the receiver for the task that reports.
    pub fn channel() -> (Self, mpsc::Receiver<LeftOut>) {
        let (queue, receiver) = mpsc::channel(QUEUE);
        (Self(Some(queue)), receiver)
    }

    /// Reports that names or addresses were left out.
    pub fn tell(&self, name: &DnsName, kind: Kind) {
        // Dropped if the queue is full: enough is reported then.
        let _enough = self.send(|| LeftOut::OfName(name.clone(), kind));
    }

    /// Reports that names of a namespace over this quota were left out. Returns whether there was
    /// room.
    pub fn tell_namespace(&self, namespace: Namespace, quota: NamespaceQuota) -> bool {
        self.send(|| LeftOut::OfNamespace(namespace, quota))
    }

    fn send(&self, left_out: impl FnOnce() -> LeftOut) -> bool {
        let queue = self.0.as_ref();
        queue.is_none_or(|queue| queue.try_send(left_out()).is_ok())
    }
}

/// An answer for a wanted name with an address that the guards refuse.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rebinding {
    pub name: DnsName,
    /// The address, as the answer has it.
    pub address: IpAddr,
    /// The reason of the refusal.
    pub reason: &'static str,
}

/// The sending end, which never blocks. Clones share the queue; the default has none, and only
/// counts.
#[derive(Clone, Debug, Default)]
pub struct Rebindings(Option<mpsc::Sender<Rebinding>>);

impl Rebindings {
    /// The sender, and the receiver for the task that reports.
    pub fn channel() -> (Self, mpsc::Receiver<Rebinding>) {
        let (queue, receiver) = mpsc::channel(QUEUE);
        (Self(Some(queue)), receiver)
    }

    /// Reports this number of answers with refused addresses, of which `rebindings` are some.
    pub fn tell(&self, rebindings: Vec<Rebinding>, answers: u64) {
        counter!("egress_collector_rebinding_attempts_total").increment(answers);
        let Some(queue) = &self.0 else {
            return;
        };
        for rebinding in rebindings {
            // Dropped if the queue is full: enough is reported then.
            let _enough = queue.try_send(rebinding);
        }
    }
}
