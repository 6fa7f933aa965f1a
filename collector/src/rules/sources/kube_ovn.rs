//! The names of kube-OVN's DNSNameResolvers, which kube-ovn-controller makes for the policies with
//! domain names.
//!
//! A policy has an object for each of its names, so several objects may have one name. The objects
//! belong to no namespace: their names are counted for the policy.

use kube::ResourceExt;
use proto::api::{KubeOvnDnsNameResolver, POLICY_LABEL, RuleType};

use super::{
    super::{
        RetentionPolicy,
        rule_object::{NameRule, RuleObject},
        validation::Faults,
    },
    RuleSource, Source,
};
use names::Namespace;

impl RuleSource for KubeOvnDnsNameResolver {
    const SOURCE: Source = Source::KubeOvn;

    fn policy(&self) -> Option<&str> {
        self.labels().get(POLICY_LABEL).map(String::as_str)
    }

    fn rules(&self, tenant: Namespace, retention: &RetentionPolicy) -> RuleObject {
        let rule = NameRule {
            index: 0,
            name: &self.spec.name,
            rule_type: RuleType::Allow,
            is_for_ports: false,
        };
        let faults = Faults::default();
        RuleObject::new(self, tenant, *retention, faults, [rule].into_iter())
    }
}
