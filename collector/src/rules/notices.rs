//! Notices to the authors of rules, from the publisher to the tasks that know the rules.

use names::Namespace;
use proto::api::DnsName;
use tokio::sync::broadcast;

/// The most notices that wait. A task that is slower loses some: enough is reported then.
const QUEUE: usize = 64;

/// A reason to report to authors of rules.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Notice {
    /// An answer for the name has an address that guards refuse for this reason, as in DNS rebinding.
    Refused(DnsName, &'static str),
    /// Addresses of a name in a Deny rule were left out: traffic to them is not blocked.
    DeniedLeftOut(DnsName),
    /// Names or addresses of a namespace at a cap were left out.
    AtCap(Namespace),
}

/// The sending end, which never blocks. Clones share the queue.
#[derive(Clone, Debug)]
pub struct Notices(broadcast::Sender<Notice>);

impl Default for Notices {
    fn default() -> Self {
        Self(broadcast::Sender::new(QUEUE))
    }
}

impl Notices {
    /// A receiver of notices from now on. Rules of several sources may have one name, so each source has one.
    pub fn subscribe(&self) -> broadcast::Receiver<Notice> {
        self.0.subscribe()
    }

    /// Sends a notice to every receiver.
    pub fn notify(&self, notice: Notice) {
        // The send fails if no task follows rules.
        let _receivers = self.0.send(notice);
    }
}
