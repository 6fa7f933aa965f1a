//! The names in EgressFirewalls.

use std::time::Duration;

use kube::ResourceExt;
use proto::{api::EgressFirewall, text::quoted};
use runtime::args::parse_duration;

use super::{
    super::{
        RetentionPolicy,
        rule_object::{NameRule, RuleObject},
        validation::{Fault, Faults},
    },
    RuleSource, Source,
};
use names::Namespace;

/// ovn-kubernetes ignores rules beyond these.
pub(in crate::rules) const MAX_RULES: usize = 8_000;

/// The prefix of annotations that override the flags for the names of an EgressFirewall.
pub(in crate::rules) const ANNOTATIONS: &str = "dnsnameresolver.network.openshift.io";

// The largest values of annotations. One namespace's annotation applies to all that use the name.
const MAX_GRACE: Duration = Duration::from_secs(3600);
const MAX_MIN_TTL: Duration = Duration::from_secs(600);
const MAX_RETAIN: Duration = Duration::from_secs(168 * 3600);

impl RuleSource for EgressFirewall {
    const SOURCE: Source = Source::EgressFirewall;

    fn rules(&self, namespace: Namespace, retention: &RetentionPolicy) -> RuleObject {
        let mut faults = Faults::default();
        let retention = annotated(self, retention, &mut faults);
        let rules = &self.spec.egress;
        if let Some(more @ 1..) = rules.len().checked_sub(MAX_RULES) {
            faults.count(Fault::TooManyRules, more);
        }
        for (index, rule) in rules.iter().enumerate().take(MAX_RULES) {
            if rule.to.is_empty() {
                faults.add(Fault::NoDestination, format!("egress[{index}]"));
            }
        }
        let rules = (0..).zip(rules.iter().take(MAX_RULES));
        let named = rules.filter_map(|(index, rule)| {
            Some(NameRule {
                index,
                name: rule.to.dns_name.as_deref()?,
                rule_type: rule.rule_type,
                is_for_ports: !rule.ports.is_empty(),
            })
        });
        RuleObject::new(self, namespace, retention, faults, named)
    }
}

/// The flags, overridden by the annotations within their largest values.
fn annotated(
    object: &EgressFirewall,
    defaults: &RetentionPolicy,
    faults: &mut Faults,
) -> RetentionPolicy {
    let mut read = |key: &str, default: Duration, ceiling: Duration| {
        let Some(text) = object.annotations().get(&format!("{ANNOTATIONS}/{key}")) else {
            return default;
        };
        let subject = || format!("{key}: {}", quoted(text));
        match parse_duration(text) {
            Ok(duration) if duration > ceiling => {
                let held = format!("{} (counts as {ceiling:?})", subject());
                faults.add(Fault::AnnotationClamped, held);
                ceiling
            }
            Ok(duration) => duration,
            Err(_) => {
                faults.add(Fault::AnnotationIgnored, subject());
                default
            }
        }
    };
    RetentionPolicy {
        grace: read("grace", defaults.grace, MAX_GRACE),
        min_ttl: read("min-ttl", defaults.min_ttl, MAX_MIN_TTL),
        retain: read("retain", defaults.retain, MAX_RETAIN),
        ..*defaults
    }
}
