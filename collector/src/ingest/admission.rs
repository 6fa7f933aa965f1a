//! Who may speak: over TCP and TLS the DNS servers of the cluster, and who is allowed by address.

use std::{future::pending, net::IpAddr, sync::Arc};

use ipnet::IpNet;
use runtime::{
    endpoints::Endpoints,
    listen::{ListenAddress, Peer},
};
use tokio::sync::watch;

/// The rules for the peers of all listeners.
#[derive(Clone, Debug, Default)]
pub struct Admission {
    /// Whoever reaches a socket may speak (`--insecure-listen`).
    pub anyone: bool,
    /// Networks whose addresses may (`--allow-peer`).
    pub allowed: Arc<[IpNet]>,
    /// The DNS servers of the cluster, which may, in whatever condition they are. `None` in it: they are not listed yet.
    pub endpoints: Option<watch::Receiver<Option<Endpoints>>>,
}

impl Admission {
    /// What holds for a peer of this listener. Who reaches a unix socket was let in by its file; who reaches a loopback address
    /// is on this host, and is only asked for if `--allow-peer` says so.
    pub(super) fn standing(&self, listener: &ListenAddress, peer: &Peer) -> Standing {
        let is_loopback = listener
            .socket_address()
            .is_some_and(|address| address.ip().is_loopback());
        let no_rule = self.allowed.is_empty() && (is_loopback || self.endpoints.is_none());
        let address = match peer.ip() {
            Some(address) if !self.anyone && !no_rule => address,
            _ => return Standing::trusted(),
        };
        if self.allowed.iter().any(|net| net.contains(&address)) {
            return Standing::trusted();
        }
        let mut standing = Standing {
            is_known: false,
            listed: Some(Listed {
                address,
                endpoints: self.endpoints.clone(),
            }),
        };
        standing.look();
        standing
    }
}

/// Whether a peer may speak, which may change while it is connected.
#[derive(Debug)]
pub(super) struct Standing {
    is_known: bool,
    /// What it depends on; nothing if it does not change.
    listed: Option<Listed>,
}

#[derive(Debug)]
struct Listed {
    address: IpAddr,
    endpoints: Option<watch::Receiver<Option<Endpoints>>>,
}

impl Standing {
    /// Of a peer that may speak for good.
    pub(super) fn trusted() -> Self {
        Self {
            is_known: true,
            listed: None,
        }
    }

    /// Whether it may speak, as of the last look.
    pub(super) fn is_known(&self) -> bool {
        self.is_known
    }

    /// Whether there is any way for it to become known.
    pub(super) fn may_change(&self) -> bool {
        let listed = self.listed.as_ref();
        listed.is_some_and(|listed| listed.endpoints.is_some())
    }

    /// Looks again if the endpoints changed; cheap if they did not. Returns whether the answer is another one.
    pub(super) fn refresh(&mut self) -> bool {
        let endpoints = self.listed.as_ref().and_then(|l| l.endpoints.as_ref());
        // An error: the program ends.
        let has_changed = endpoints.is_some_and(|e| e.has_changed().unwrap_or(false));
        has_changed && self.look()
    }

    /// Waits until the endpoints change. May be cancelled.
    pub(super) async fn changed(&mut self) {
        let endpoints = self.listed.as_mut().and_then(|l| l.endpoints.as_mut());
        if let Some(endpoints) = endpoints
            && endpoints.changed().await.is_ok()
        {
            // The next look is to see it too.
            return endpoints.mark_changed();
        }
        pending().await
    }

    fn look(&mut self) -> bool {
        let Some(Listed {
            address,
            endpoints: Some(endpoints),
        }) = &mut self.listed
        else {
            return false;
        };
        let endpoints = endpoints.borrow_and_update();
        let mut addresses = endpoints.iter().flat_map(|all| all.keys());
        let is_known = addresses.any(|endpoint| endpoint.ip().to_canonical() == *address);
        std::mem::replace(&mut self.is_known, is_known) != is_known
    }
}

#[cfg(test)]
mod tests {
    use runtime::endpoints::Conditions;

    use super::*;

    fn peer(text: &str) -> Peer {
        Peer::Address(text.parse().unwrap())
    }

    fn is_known(admission: &Admission, listener: &str, address: &str) -> bool {
        let listener = listener.parse().unwrap();
        admission.standing(&listener, &peer(address)).is_known()
    }

    fn endpoints(addresses: &[&str]) -> Option<Endpoints> {
        let conditions = Conditions {
            ready: false,
            serving: false,
            terminating: true,
        };
        let addresses = addresses
            .iter()
            .map(|text| (text.parse().unwrap(), conditions));
        Some(Arc::new(addresses.collect()))
    }

    #[test]
    fn without_a_rule_whoever_reaches_the_socket_may_speak() {
        let none = Admission::default();
        assert!(is_known(&none, "tcp://0.0.0.0:6000", "192.0.2.1:5"));
        let process = Peer::Process {
            pid: None,
            uid: 1,
            gid: 1,
        };
        let strict = Admission {
            allowed: Arc::new(["192.0.2.0/24".parse().unwrap()]),
            ..Admission::default()
        };
        let unix = "unix:///x".parse().unwrap();
        assert!(strict.standing(&unix, &process).is_known());
        let open = Admission {
            anyone: true,
            ..strict
        };
        assert!(is_known(&open, "tcp://0.0.0.0:6000", "198.51.100.1:5"));
    }

    #[test]
    fn allowed_networks_may_speak_and_others_never_will() {
        let admission = Admission {
            allowed: Arc::new(["192.0.2.0/24".parse().unwrap()]),
            ..Admission::default()
        };
        for listener in ["tcp://127.0.0.1:1", "tls://0.0.0.0:1", "tcp://[::]:1"] {
            assert!(is_known(&admission, listener, "192.0.2.9:5"));
            assert!(is_known(&admission, listener, "[::ffff:192.0.2.9]:5"));
            assert!(!is_known(&admission, listener, "127.0.0.1:5"));
        }
        let listener = "tcp://0.0.0.0:1".parse().unwrap();
        let standing = admission.standing(&listener, &peer("127.0.0.1:5"));
        assert!(!standing.may_change());
    }

    #[tokio::test]
    async fn endpoints_in_any_condition_may_speak_as_long_as_they_are_listed() {
        let (sender, receiver) = watch::channel(None);
        let admission = Admission {
            endpoints: Some(receiver),
            ..Admission::default()
        };
        let listener = "tcp://0.0.0.0:1".parse().unwrap();
        let mut standing = admission.standing(&listener, &peer("10.0.0.1:40000"));
        assert!(!standing.is_known() && standing.may_change());
        assert!(!standing.refresh());

        sender.send_replace(endpoints(&["10.0.0.1:53", "10.0.0.2:53"]));
        standing.changed().await;
        assert!(standing.refresh() && standing.is_known());
        sender.send_replace(endpoints(&["10.0.0.1:53"]));
        assert!(!standing.refresh() && standing.is_known());
        sender.send_replace(endpoints(&["10.0.0.2:53"]));
        assert!(standing.refresh() && !standing.is_known());
        assert!(is_known(&admission, "tcp://0.0.0.0:1", "10.0.0.2:9"));
        // Whoever is on this host may speak on a loopback address.
        assert!(is_known(&admission, "tcp://127.0.0.1:1", "127.0.0.1:9"));
    }
}
