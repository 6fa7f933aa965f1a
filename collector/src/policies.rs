//! The AdminNetworkPolicies and ClusterNetworkPolicies for which kube-ovn-controller makes
//! DNSNameResolvers: Events about their names go to them.
//!
//! kube-ovn-controller copies a name as it stands into an object. A name without its last dot, or in
//! upper case, is refused there, and has no object. The policy gets an Event about it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    pin::pin,
    sync::Arc,
};

use futures_util::{StreamExt, stream::select};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{CustomResource, Resource, ResourceExt};
use parking_lot::RwLock;
use proto::api::DnsName;
use runtime::{
    cluster::Cluster,
    inspect::text::quoted,
    kube_events::{Reporter, Severity},
    store::Event,
};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

/// The most names in an Event.
const MAX_NAMED: usize = 8;

/// The fields of an AdminNetworkPolicy with names.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize)]
#[kube(
    group = "policy.networking.k8s.io",
    version = "v1alpha1",
    kind = "AdminNetworkPolicy",
    plural = "adminnetworkpolicies",
    schema = "disabled"
)]
pub struct AdminNetworkPolicySpec {
    #[serde(default)]
    egress: Vec<EgressRule>,
}

/// The fields of a ClusterNetworkPolicy with names.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize)]
#[kube(
    group = "policy.networking.k8s.io",
    version = "v1alpha2",
    kind = "ClusterNetworkPolicy",
    plural = "clusternetworkpolicies",
    schema = "disabled"
)]
pub struct ClusterNetworkPolicySpec {
    #[serde(default)]
    egress: Vec<EgressRule>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct EgressRule {
    #[serde(default)]
    to: Vec<Peer>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Peer {
    #[serde(default)]
    domain_names: Vec<String>,
}

/// A kind of policy, and the name of one.
type PolicyKey = (&'static str, String);

/// A policy with names.
#[derive(Clone, Debug)]
struct Policy {
    about: ObjectReference,
    /// Names that can have no object, as they stand there.
    refused: BTreeSet<String>,
}

/// A policy with names that can have no object.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct RefusedNames {
    /// `KIND NAME`.
    pub policy: String,
    /// The names, and how to write them.
    pub words: String,
}

/// The policies with names. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Policies(Arc<RwLock<BTreeMap<PolicyKey, Policy>>>);

impl Policies {
    /// The policy of this name, of either kind.
    pub(crate) fn about(&self, name: &str) -> Option<ObjectReference> {
        let policies = self.0.read();
        let mut named = policies.iter().filter(|((_, policy), _)| policy == name);
        named.next().map(|(_, policy)| policy.about.clone())
    }

    /// The policies with names that can have no object.
    pub(crate) fn refused(&self) -> Vec<RefusedNames> {
        let policies = self.0.read();
        let refused = policies.iter().filter(|(_, it)| !it.refused.is_empty());
        let refused = refused.map(|((kind, name), policy)| RefusedNames {
            policy: format!("{kind} {name}"),
            words: policy.note(),
        });
        refused.collect()
    }
}

/// Follows the policies of both kinds, and reports the names that can have no object.
///
/// # Errors
/// None: failures are logged and retried.
pub async fn run(
    cluster: Cluster,
    policies: Policies,
    reporter: Reporter,
    token: CancellationToken,
) -> anyhow::Result<()> {
    let admin = cluster.watch_all::<AdminNetworkPolicy>();
    let admin = admin.map(|event| PolicyEvent::of(event, |policy| &policy.spec.egress));
    let of_cluster = cluster.watch_all::<ClusterNetworkPolicy>();
    let of_cluster = of_cluster.map(|event| PolicyEvent::of(event, |policy| &policy.spec.egress));
    let mut events = pin!(select(admin, of_cluster));
    loop {
        tokio::select! {
            () = token.cancelled() => return Ok(()),
            Some(event) = events.next() => event.apply(&policies, &reporter),
        }
    }
}

/// A change of policies of one kind.
struct PolicyEvent {
    kind: &'static str,
    /// All others of the kind are gone.
    is_complete: bool,
    changed: Vec<(PolicyKey, Policy)>,
    gone: Option<PolicyKey>,
}

impl PolicyEvent {
    fn of<K: Resource<DynamicType = ()> + Debug>(
        event: Event<K>,
        rules: impl Fn(&K) -> &Vec<EgressRule>,
    ) -> Self {
        let kind = if K::kind(&()) == "AdminNetworkPolicy" {
            "AdminNetworkPolicy"
        } else {
            "ClusterNetworkPolicy"
        };
        let read = |policy: K| Policy::read(kind, &policy, rules(&policy));
        let (mut is_complete, mut changed, mut gone) = (false, Vec::new(), None);
        match event {
            Event::Synced(policies) => {
                is_complete = true;
                changed = policies.into_iter().map(read).collect();
            }
            Event::Applied(policy) => changed.push(read(policy)),
            Event::Deleted(key) => gone = Some((kind, key.name)),
            Event::Undecodable(_) | Event::OutOfSync(_) => {}
        }
        Self {
            kind,
            is_complete,
            changed,
            gone,
        }
    }

    /// Reports the names that can have no object, where they changed.
    fn apply(self, policies: &Policies, reporter: &Reporter) {
        let mut known = policies.0.write();
        if self.is_complete {
            known.retain(|(kind, _), _| *kind != self.kind);
        }
        if let Some(gone) = self.gone {
            known.remove(&gone);
        }
        for (key, policy) in self.changed {
            let before = known.insert(key, policy.clone());
            let before = before.map(|it| it.refused).unwrap_or_default();
            if !policy.refused.is_empty() && before != policy.refused {
                let note = policy.note();
                reporter.report(policy.about, Severity::Warning, "NameRefused", note);
            }
        }
    }
}

impl Policy {
    fn read(
        kind: &'static str,
        policy: &impl Resource<DynamicType = ()>,
        rules: &[EgressRule],
    ) -> (PolicyKey, Self) {
        let peers = rules.iter().flat_map(|rule| &rule.to);
        let names = peers.flat_map(|peer| &peer.domain_names);
        let refused = names.filter(|name| !can_have_object(name)).cloned();
        let mut about = policy.object_ref(&());
        // The Event is about the policy, not about one of its versions.
        about.resource_version = None;
        let read = Self {
            about,
            refused: refused.collect(),
        };
        ((kind, policy.name_any()), read)
    }

    fn note(&self) -> String {
        let names = self.refused.iter().take(MAX_NAMED);
        let names: Vec<_> = names.map(|name| quoted(name)).collect();
        format!(
            "{} domain names get no DNSNameResolver, so their rules open nothing. Write each in lower case and with its last dot, such as \
             www.example.com.: {}",
            self.refused.len(),
            names.join(", ")
        )
    }
}

/// Whether kube-OVN's definition accepts the name as it stands.
fn can_have_object(name: &str) -> bool {
    DnsName::parse(name).is_ok_and(|parsed| parsed.as_str() == name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(names: &[&str]) -> ClusterNetworkPolicy {
        serde_json::from_value(json!({
            "apiVersion": "policy.networking.k8s.io/v1alpha2",
            "kind": "ClusterNetworkPolicy",
            "metadata": {"name": "web", "uid": "1", "resourceVersion": "7"},
            "spec": {
                "tier": "Admin",
                "egress": [
                    {"action": "Accept", "to": [{"networks": ["192.0.2.0/24"]}]},
                    {"action": "Accept", "to": [{"domainNames": names}]},
                ],
            },
        }))
        .unwrap()
    }

    /// Returns how many Events are raised.
    fn apply(policies: &Policies, event: Event<ClusterNetworkPolicy>) -> usize {
        let (reporter, mut reports) = Reporter::with_queue(4);
        PolicyEvent::of(event, |policy| &policy.spec.egress).apply(policies, &reporter);
        std::iter::from_fn(|| reports.try_recv().ok()).count()
    }

    #[test]
    fn names_that_get_no_object_are_reported_once_for_each_change() {
        let policies = Policies::default();
        let good = policy(&["www.example.com."]);
        assert_eq!(apply(&policies, Event::Applied(good)), 0);
        let bad = policy(&[
            "www.example.com.",
            "*.example.com.",
            "www.example.org",
            "A.example.com.",
        ]);
        assert_eq!(apply(&policies, Event::Applied(bad.clone())), 1);
        assert_eq!(apply(&policies, Event::Applied(bad)), 0);
        let about = policies.about("web").unwrap();
        assert_eq!(about.kind.as_deref(), Some("ClusterNetworkPolicy"));
        assert_eq!(
            (about.uid.as_deref(), about.resource_version),
            (Some("1"), None)
        );
        let refused = policies.refused().remove(0);
        assert_eq!(refused.policy, "ClusterNetworkPolicy web");
        let note = refused.words;
        assert!(note.starts_with("2 domain names"), "{note}");
        assert!(
            note.contains("\"A.example.com.\"") && note.contains("\"www.example.org\""),
            "{note}"
        );
        assert_eq!(apply(&policies, Event::Synced(Vec::new())), 0);
        assert!(policies.about("web").is_none() && policies.refused().is_empty());
    }
}
