//! Which names are in use, by the EgressFirewalls of all namespaces.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
};

use anyhow::bail;
use futures_util::StreamExt;
use proto::api::{DnsName, EgressFirewall};
use runtime::{
    admin::Gate,
    store::{Event, ObjectKey, Scope, Store},
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// ovn-kubernetes ignores rules beyond these.
const MAX_RULES: usize = 8_000;

/// The names in use. Until the first list of EgressFirewalls is there, nothing is known of what is not.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Wanted {
    /// Every name that a rule names and that can be an object.
    pub names: BTreeSet<DnsName>,
    /// Whether `names` is complete, so that what is not in it is not in use.
    pub in_sync: bool,
}

/// The names by EgressFirewall.
#[derive(Debug, Default)]
struct Rules {
    firewalls: BTreeMap<ObjectKey, BTreeSet<DnsName>>,
    /// Rules whose name can be no object, by EgressFirewall, as they were last reported.
    refused: BTreeMap<ObjectKey, BTreeSet<String>>,
}

impl Rules {
    fn apply(&mut self, firewall: &EgressFirewall) {
        let key = ObjectKey::of(firewall);
        let mut names = BTreeSet::new();
        let mut refused = BTreeSet::new();
        let rules = &firewall.spec.egress;
        for text in rules
            .iter()
            .take(MAX_RULES)
            .filter_map(|rule| rule.to.dns_name.as_deref())
        {
            match DnsName::parse(text) {
                Ok(name) => {
                    names.insert(name);
                }
                Err(error) => {
                    if !self
                        .refused
                        .get(&key)
                        .is_some_and(|known| known.contains(text))
                    {
                        warn!(egress_firewall = %key, name = ?text, %error, "rule skipped: its name cannot be a DNSNameResolver");
                    }
                    refused.insert(text.to_owned());
                }
            }
        }
        if rules.len() > MAX_RULES {
            warn!(egress_firewall = %key, rules = rules.len(), limit = MAX_RULES, "rules over the limit are ignored");
        }
        self.firewalls.insert(key.clone(), names);
        self.refused.insert(key, refused);
    }

    fn remove(&mut self, key: &ObjectKey) {
        self.firewalls.remove(key);
        self.refused.remove(key);
    }

    fn reset(&mut self, firewalls: &[EgressFirewall]) {
        let keys: BTreeSet<ObjectKey> = firewalls.iter().map(ObjectKey::of).collect();
        self.firewalls.retain(|key, _| keys.contains(key));
        self.refused.retain(|key, _| keys.contains(key));
        for firewall in firewalls {
            self.apply(firewall);
        }
    }

    fn names(&self) -> BTreeSet<DnsName> {
        self.firewalls.values().flatten().cloned().collect()
    }

    fn refused(&self) -> usize {
        self.refused.values().map(BTreeSet::len).sum()
    }
}

/// Follows the EgressFirewalls and publishes the names in use, until `shutdown`.
///
/// # Errors
/// The watch ended, which a store's never does.
pub async fn run<S: Store>(
    store: S,
    wanted: watch::Sender<Wanted>,
    gate: Gate,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let mut rules = Rules::default();
    let mut events = pin!(store.watch::<EgressFirewall>(Scope::All));
    loop {
        let event = tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            event = events.next() => event,
        };
        let in_sync = match event {
            None => bail!("the watch of EgressFirewalls ended"),
            Some(Event::Synced(firewalls)) => {
                info!(
                    egress_firewalls = firewalls.len(),
                    "EgressFirewalls are in sync"
                );
                rules.reset(&firewalls);
                gate.ready();
                true
            }
            Some(Event::Applied(firewall)) => {
                rules.apply(&firewall);
                wanted.borrow().in_sync
            }
            Some(Event::Deleted(key)) => {
                rules.remove(&key);
                wanted.borrow().in_sync
            }
            Some(Event::OutOfSync(reason)) => {
                warn!(%reason, "EgressFirewalls cannot be read; the names in use stay as they are");
                gate.not_ready(reason);
                false
            }
        };
        metrics::gauge!("collector_egress_firewall_names_refused").set(rules.refused() as f64);
        wanted.send_if_modified(|current| {
            let next = Wanted {
                names: rules.names(),
                in_sync,
            };
            let changed = *current != next;
            *current = next;
            changed
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn firewall(namespace: &str, names: &[&str]) -> EgressFirewall {
        let rules: Vec<_> = names
            .iter()
            .map(|name| serde_json::json!({"type": "Allow", "to": {"dnsName": name}}))
            .collect();
        serde_json::from_value(serde_json::json!({
            "apiVersion": "k8s.ovn.org/v1",
            "kind": "EgressFirewall",
            "metadata": {"name": "default", "namespace": namespace},
            "spec": {"egress": rules},
        }))
        .unwrap()
    }

    fn texts(rules: &Rules) -> Vec<String> {
        rules.names().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn names_are_normalised_and_shared_between_namespaces() {
        let mut rules = Rules::default();
        rules.apply(&firewall("a", &["WWW.Example.com", "*.example.com."]));
        rules.apply(&firewall("b", &["www.example.com."]));
        assert_eq!(texts(&rules), ["*.example.com.", "www.example.com."]);
        rules.remove(&ObjectKey {
            namespace: "a".into(),
            name: "default".into(),
        });
        assert_eq!(texts(&rules), ["www.example.com."]);
    }

    #[test]
    fn a_bad_name_costs_only_itself() {
        let mut rules = Rules::default();
        rules.apply(&firewall(
            "a",
            &["localhost", "a_b.example.com", "www.example.com"],
        ));
        assert_eq!(texts(&rules), ["www.example.com."]);
        assert_eq!(rules.refused(), 2);
    }

    #[test]
    fn an_edit_replaces_the_names_of_its_egress_firewall() {
        let mut rules = Rules::default();
        rules.apply(&firewall("a", &["one.example.com"]));
        rules.apply(&firewall("a", &["two.example.com"]));
        assert_eq!(texts(&rules), ["two.example.com."]);
    }

    #[test]
    fn a_new_list_forgets_what_it_lacks() {
        let mut rules = Rules::default();
        rules.apply(&firewall("a", &["one.example.com"]));
        rules.reset(&[firewall("b", &["two.example.com"])]);
        assert_eq!(texts(&rules), ["two.example.com."]);
    }
}
