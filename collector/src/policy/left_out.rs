//! What limits leave out of the names of rules, told to the authors of the rules.

use proto::api::DnsName;
use tokio::{sync::mpsc, time::Instant};

use super::{rules::Rules, teller::Teller};

/// What waits to be told of. There is no need for each.
const QUEUE: usize = 64;

/// What was left out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Addresses of a name that a rule denies: they are open.
    DeniedAddresses,
    /// A name and perhaps others of its namespace, which has too many addresses or names.
    OverLimit,
    /// Names under a wildcard, of a client that asked for too many new ones in a short time.
    NewNames,
}

/// Something was left out of what a rule has.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LeftOut {
    /// The name, as it stands in rules.
    pub name: DnsName,
    /// What was left out of it.
    pub kind: Kind,
}

/// Takes what is to be told, and never blocks. Clones share the queue; the default has none.
#[derive(Clone, Debug, Default)]
pub struct Notices(Option<mpsc::Sender<LeftOut>>);

impl Notices {
    /// What is told, and who takes it.
    pub fn channel() -> (Self, mpsc::Receiver<LeftOut>) {
        let (queue, receiver) = mpsc::channel(QUEUE);
        (Self(Some(queue)), receiver)
    }

    /// This was left out.
    pub fn tell(&self, name: &DnsName, kind: Kind) {
        if let Some(queue) = &self.0 {
            let name = name.clone();
            // A full queue: enough is told.
            let _enough = queue.try_send(LeftOut { name, kind });
        }
    }
}

impl Kind {
    fn reason(self) -> &'static str {
        match self {
            Self::DeniedAddresses => "DeniedAddressesLeftOut",
            Self::OverLimit => "LimitExceeded",
            Self::NewNames => "NewNamesRefused",
        }
    }

    fn note(self, name: &DnsName) -> String {
        match self {
            Self::DeniedAddresses => format!(
                "{name}, which a rule denies, has more addresses than are kept: those that are left out are open. A Deny rule by name is \
                 no barrier to a pod that asks for many names"
            ),
            Self::OverLimit => "this namespace has more addresses or names than it may have (--max-addresses-per-namespace, \
                --max-names-per-namespace), or all together have: names of its rules are left out, the last first"
                .to_owned(),
            Self::NewNames => format!(
                "clients asked for more new names under {name} than are taken in (--new-names-rate, --new-names-burst): names beyond \
                 that are left out until they are asked for again"
            ),
        }
    }
}

/// Tells the authors of the rules, unless the same was told a while ago.
pub(super) fn tell(teller: &mut Teller, rules: &Rules, left_out: &LeftOut, now: Instant) {
    let LeftOut { name, kind } = left_out;
    let about = (kind.reason(), kind.reason());
    let note = || kind.note(name);
    match kind {
        Kind::DeniedAddresses => teller.tell(name, about, rules.denying(name), note, now),
        Kind::NewNames | Kind::OverLimit => {
            teller.tell(name, about, rules.using(name), note, now);
        }
    }
}
