//! What the authors of rules are to be told, from the tasks that find it to the one that [knows the rules](crate::rules).

use std::net::IpAddr;

use metrics::counter;
use proto::api::DnsName;
use runtime::clock::Clock;
use tokio::sync::mpsc;

use crate::{
    clients::Namespace,
    event_history::{EventHistory, EventKind, HistoryEntry},
    namespaces::NamespaceQuota,
    observation::Provenance,
};

/// What waits to be told of. There is no need for each.
const QUEUE: usize = 64;

/// What was left out of a name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Addresses of a name that a rule denies: they are open.
    DeniedAddresses,
    /// Names under a wildcard, of a client that asked for too many new ones in a short time.
    NewNames,
}

/// Something was left out of what rules have.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum LeftOut {
    /// Of a name, as it stands in rules.
    OfName(DnsName, Kind),
    /// Names of a namespace, which has more than this quota, or most where all together have too much.
    OfNamespace(Namespace, NamespaceQuota),
}

/// Takes what is to be told, and never blocks. Clones share the queue; the default has none.
#[derive(Clone, Debug, Default)]
pub struct Notices(Option<mpsc::Sender<LeftOut>>);

impl Notices {
    /// The sender, and the receiver for the task that tells the authors.
    pub fn channel() -> (Self, mpsc::Receiver<LeftOut>) {
        let (queue, receiver) = mpsc::channel(QUEUE);
        (Self(Some(queue)), receiver)
    }

    /// This was left out of a name.
    pub fn tell(&self, name: &DnsName, kind: Kind) {
        // A full queue: enough is told.
        let _enough = self.send(|| LeftOut::OfName(name.clone(), kind));
    }

    /// Names of a namespace were left out, which may have so much. Returns whether there is room to tell of it.
    pub fn tell_namespace(&self, namespace: Namespace, quota: NamespaceQuota) -> bool {
        self.send(|| LeftOut::OfNamespace(namespace, quota))
    }

    fn send(&self, left_out: impl FnOnce() -> LeftOut) -> bool {
        let queue = self.0.as_ref();
        queue.is_none_or(|queue| queue.try_send(left_out()).is_ok())
    }
}

/// A wanted name was answered with an address that is never opened.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rebinding {
    /// The name.
    pub name: DnsName,
    /// The address, as the answer had it.
    pub address: IpAddr,
    /// Why the address is refused, in a word.
    pub reason: &'static str,
    /// Where the answer was seen.
    pub source: Provenance,
}

/// Takes attempts and never blocks. Clones share the queue; the default has none, and only counts.
#[derive(Clone, Debug, Default)]
pub struct Rebindings(Option<Telling>);

#[derive(Clone, Debug)]
struct Telling {
    queue: mpsc::Sender<Rebinding>,
    recent: EventHistory,
    clock: Clock,
}

impl Rebindings {
    /// The sender, and the receiver for the task that tells the authors.
    ///
    /// Each is noted in `recent` too.
    pub fn channel(recent: EventHistory, clock: Clock) -> (Self, mpsc::Receiver<Rebinding>) {
        let (queue, receiver) = mpsc::channel(QUEUE);
        let telling = Telling {
            queue,
            recent,
            clock,
        };
        (Self(Some(telling)), receiver)
    }

    /// There were so many answers with refused addresses, of which these are some.
    pub fn tell(&self, rebindings: Vec<Rebinding>, answers: u64) {
        counter!("collector_rebinding_attempts_total").increment(answers);
        let Some(telling) = &self.0 else {
            return;
        };
        for rebinding in rebindings {
            telling.recent.note(HistoryEntry {
                name: rebinding.name.clone(),
                address: Some(rebinding.address),
                what: EventKind::Refused(rebinding.reason),
                source: rebinding.source,
                at: telling.clock.now(),
            });
            // A full queue: enough is told.
            let _enough = telling.queue.try_send(rebinding);
        }
    }
}
