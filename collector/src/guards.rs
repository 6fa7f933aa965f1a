//! Which addresses an answer may bring in.

use std::{net::IpAddr, sync::Arc};

use arc_swap::ArcSwap;
use ipnet::IpNet;
use runtime::networks::{Networks, Purpose};

/// The addresses that are refused whatever the rules say: those of [`proto::address`], the administrator's own, and the
/// cluster's.
#[derive(Clone, Debug, Default)]
pub struct Guards {
    denied: Arc<[IpNet]>,
    cluster: Arc<Networks>,
}

/// The guards as readers see them: replaced as a whole, never changed, so that they need no lock.
pub type SharedGuards = Arc<ArcSwap<Guards>>;

/// Every word of [`Guards::admit`].
pub const REASONS: &[&str] = &[
    "unspecified",
    "loopback",
    "link-local",
    "multicast",
    "broadcast",
    "cloud-metadata",
    "deny-answer",
    "api-server",
    "service-cidr",
    "pod-cidr",
];

impl Guards {
    /// The fixed guards, and these networks (`--deny-answer`).
    pub fn new(denied: Vec<IpNet>) -> Self {
        Self {
            denied: denied.into(),
            cluster: Arc::default(),
        }
    }

    /// The same, with these networks as the cluster's own.
    #[must_use]
    pub fn with(&self, cluster: Arc<Networks>) -> Self {
        Self {
            denied: Arc::clone(&self.denied),
            cluster,
        }
    }

    /// For readers.
    pub fn shared(self) -> SharedGuards {
        Arc::new(ArcSwap::from_pointee(self))
    }

    /// The address in canonical form, if it may be programmed: neither it nor an IPv4 address inside it is refused.
    ///
    /// # Errors
    /// A word that says why not, fit for a metric label.
    pub fn admit(&self, address: IpAddr) -> Result<IpAddr, &'static str> {
        let address = proto::address::canonical(address);
        proto::address::check(address).map_err(proto::address::Forbidden::as_str)?;
        self.check(address)?;
        for inner in proto::address::embedded(address) {
            self.check(inner.into())?;
        }
        Ok(address)
    }

    fn check(&self, address: IpAddr) -> Result<(), &'static str> {
        if self.denied.iter().any(|net| net.contains(&address)) {
            return Err("deny-answer");
        }
        let purpose = self.cluster.purpose(address);
        purpose.map_or(Ok(()), |purpose| Err(Purpose::as_str(purpose)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nets(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn an_address_in_a_denied_network_is_refused_in_either_spelling() {
        let guards = Guards::new(nets(&["10.96.0.0/16"]));
        let admit = |text: &str| guards.admit(text.parse().unwrap());
        assert_eq!(admit("10.96.0.1"), Err("deny-answer"));
        assert_eq!(admit("::ffff:10.96.0.1"), Err("deny-answer"));
        assert_eq!(admit("64:ff9b::10.96.0.1"), Err("deny-answer"));
        assert_eq!(admit("64:ff9b:1::10.96.0.1"), Err("deny-answer"));
        // Teredo, whose client's address is stored inverted.
        assert_eq!(admit("2001::c000:201:0:0:f59f:fffe"), Err("deny-answer"));
        assert_eq!(admit("127.0.0.1"), Err("loopback"));
        assert_eq!(admit("10.97.0.1"), Ok("10.97.0.1".parse().unwrap()));
    }

    #[test]
    fn an_address_of_the_clusters_own_is_refused_for_what_it_is_there() {
        let before = Guards::new(nets(&["198.51.100.0/24"]));
        let networks = Networks::new(
            nets(&["192.0.2.10/32"]),
            nets(&["10.96.0.0/16", "fd00:96::/112"]),
            nets(&["10.244.0.0/24", "10.244.1.0/24"]),
        );
        let guards = before.with(Arc::new(networks));
        for (text, reason) in [
            ("192.0.2.10", "api-server"),
            ("10.96.255.255", "service-cidr"),
            ("fd00:96::1", "service-cidr"),
            ("10.244.1.9", "pod-cidr"),
            ("2002:af4:109::1", "pod-cidr"),
            ("198.51.100.1", "deny-answer"),
        ] {
            let address = text.parse().unwrap();
            assert_eq!(guards.admit(address), Err(reason), "{text}");
            let alone = before.admit(address);
            assert_eq!(alone.is_ok(), reason != "deny-answer", "{text}");
        }
        for text in ["192.0.2.11", "10.97.0.0", "10.244.2.1", "fd00:97::1"] {
            assert!(guards.admit(text.parse().unwrap()).is_ok(), "{text}");
        }
    }
}
