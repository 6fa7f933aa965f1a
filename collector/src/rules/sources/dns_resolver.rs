//! The names in DNSResolvers, from which policy-writer makes objects.

use proto::api::{DnsResolver, MAX_DOMAINS, RuleType};

use super::{
    super::{
        RetentionPolicy,
        rule_object::{NameRule, RuleObject},
        validation::{Fault, Faults},
    },
    RuleSource, Source,
};
use names::Namespace;

impl RuleSource for DnsResolver {
    const SOURCE: Source = Source::DnsResolver;

    fn rules(&self, namespace: Namespace, retention: &RetentionPolicy) -> RuleObject {
        let mut faults = Faults::default();
        let names = &self.spec.domain_list;
        if let Some(more @ 1..) = names.len().checked_sub(MAX_DOMAINS) {
            faults.count(Fault::TooManyRules, more);
        }
        let names = (0..).zip(names.iter().take(MAX_DOMAINS));
        let rules = names.map(|(index, name)| NameRule {
            index,
            name,
            rule_type: RuleType::Allow,
            is_for_ports: false,
        });
        RuleObject::new(self, namespace, *retention, faults, rules)
    }
}
