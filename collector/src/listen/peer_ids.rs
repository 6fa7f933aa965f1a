//! Identities of peers, with numbers, so that each stored address can refer to the stream that had it in two bytes.

use std::{collections::HashMap, fmt, net::IpAddr, sync::Arc};

use parking_lot::Mutex;
use runtime::listen::Peer;

use names::Provenance;

/// The identity of a peer, over all its connections.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum PeerKey {
    Address(IpAddr),
    /// All processes whose PID is not visible, as in other PID namespaces, are one peer.
    Process(Option<i32>),
}

impl From<&Peer> for PeerKey {
    fn from(peer: &Peer) -> Self {
        match peer {
            Peer::Process(pid) => Self::Process(*pid),
            Peer::Address(address) => Self::Address(address.ip().to_canonical()),
        }
    }
}

impl fmt::Display for PeerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Process(Some(pid)) => write!(f, "process {pid}"),
            Self::Process(None) => f.write_str("a process in another PID namespace"),
        }
    }
}

/// The peers of this process so far. Clones share them.
///
/// A number is never reused, so no address is attributed to a wrong peer. Beyond
/// [`Provenance::PEERS`], peers share one number.
#[derive(Clone, Debug, Default)]
pub struct PeerIds(Arc<Mutex<Peers>>);

#[derive(Debug, Default)]
struct Peers {
    numbers: HashMap<PeerKey, usize>,
    keys: Vec<PeerKey>,
}

impl PeerIds {
    /// The source of observations in the streams of this peer.
    pub(super) fn of(&self, key: PeerKey) -> Provenance {
        let mut peers = self.0.lock();
        if let Some(number) = peers.numbers.get(&key) {
            return Provenance::peer(*number);
        }
        let number = peers.keys.len();
        if number >= Provenance::PEERS {
            return Provenance::STREAM;
        }
        peers.numbers.insert(key, number);
        peers.keys.push(key);
        Provenance::peer(number)
    }

    /// A phrase that follows the word `seen`.
    pub fn describe(&self, source: Provenance) -> String {
        let key = source
            .number()
            .and_then(|number| self.0.lock().keys.get(number).copied());
        match (source, key) {
            (_, Some(key)) => format!("in the dnstap stream of {key}"),
            (Provenance::STATUS, _) => {
                "by another replica or an earlier run, which wrote it into the object".to_owned()
            }
            (Provenance::LOOKUP, _) => "in the reply to this replica's own look-up".to_owned(),
            (Provenance::HOLD, _) => "in an answer that this replica forwarded".to_owned(),
            (Provenance::REMEMBERED, _) => {
                "in a dnstap stream, before a rule wanted the name".to_owned()
            }
            _ => "in a dnstap stream".to_owned(),
        }
    }
}
