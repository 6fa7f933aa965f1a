//! Reports to the authors of rules, from the tasks that find a reason to the task that [knows the
//! rules](crate::rules).

use std::net::IpAddr;

use metrics::counter;
use proto::api::DnsName;
use tokio::sync::mpsc;

use names::Namespace;

/// The most waiting reports. Dropping some is harmless.
const QUEUE: usize = 64;

/// Names or addresses that were left out.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum LeftOut {
    /// Addresses of a name in a Deny rule: traffic to them is not blocked.
    OfDenied(DnsName),
    /// Names or addresses of a namespace at a cap.
    OfNamespace(Namespace),
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

    /// Reports that addresses of a name in a Deny rule were left out.
    pub fn notify_denied(&self, name: &DnsName) {
        self.send(|| LeftOut::OfDenied(name.clone()));
    }

    /// Reports that names or addresses of a namespace at a cap were left out.
    pub fn notify_namespace(&self, namespace: Namespace) {
        self.send(|| LeftOut::OfNamespace(namespace));
    }

    fn send(&self, left_out: impl FnOnce() -> LeftOut) {
        if let Some(queue) = &self.0 {
            // Dropped if the queue is full: enough is reported then.
            let _enough = queue.try_send(left_out());
        }
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

    /// Counts and reports an answer with a refused address.
    pub fn notify(&self, rebinding: Rebinding) {
        counter!("egress_collector_rebinding_attempts_total").increment(1);
        if let Some(queue) = &self.0 {
            // Dropped if the queue is full: enough is reported then.
            let _enough = queue.try_send(rebinding);
        }
    }
}
