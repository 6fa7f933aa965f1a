//! The manifest that would allow the names of a window.

use std::collections::{BTreeMap, BTreeSet};

use proto::{
    api::{DnsName, MAX_DOMAINS},
    text::printable,
};

use super::window::Asked;

/// From this many names under one parent, a wildcard is proposed.
const SIBLINGS: usize = 3;

/// The most rules of an EgressFirewall that ovn-kubernetes applies, without the two that deny all else.
const MOST_RULES: usize = 8_000 - 2;

/// What the manifest is for.
pub(super) struct Proposal<'a> {
    pub(super) namespace: Option<&'a str>,
    /// A DNSResolver instead of an EgressFirewall.
    pub(super) is_policy: bool,
    /// The domains of the cluster's Services.
    pub(super) cluster_domains: &'a [String],
}

impl Proposal<'_> {
    /// The manifest with these names, which are in the order of the rules. `notes` are comments at its top.
    pub(super) fn text(&self, asked: &[Asked], notes: &[String]) -> String {
        let (mut rules, mut others, mut names) = (String::new(), String::new(), BTreeSet::new());
        let most = if self.is_policy {
            MAX_DOMAINS
        } else {
            MOST_RULES
        };
        for asked in asked {
            let reason = match (
                reason(asked, self.cluster_domains),
                DnsName::parse(&asked.name),
            ) {
                (None, Ok(name)) if names.len() < most => {
                    rules += &format!("  # {}\n{}", asked.times(), self.rule(&asked.name, ""));
                    names.insert(name);
                    continue;
                }
                (None, Ok(_)) => format!("the object has room for {most} names"),
                (None, Err(error)) => error.to_string(),
                (Some(reason), _) => reason,
            };
            others += &format!("  #   {}: {}\n", printable(&asked.name), printable(&reason));
        }
        for (parent, count) in parents(&names) {
            rules += &format!("  # In place of the {count} names directly below {parent}:\n");
            rules += &self.rule(&format!("*.{parent}"), "# ");
        }
        let notes = notes.iter().map(|note| format!("# {}\n", printable(note)));
        let mut text: String = notes.collect();
        let (version, kind, list) = match self.is_policy {
            true => ("dns.k8s.delta10.nl/v1alpha1", "DNSResolver", "domainList"),
            false => ("k8s.ovn.org/v1", "EgressFirewall", "egress"),
        };
        text += &format!("apiVersion: {version}\nkind: {kind}\nmetadata:\n  name: default\n");
        if let Some(namespace) = self.namespace {
            text += &format!("  namespace: {namespace}\n");
        }
        let empty = if names.is_empty() { " []" } else { "" };
        text += &format!("spec:\n  {list}:{empty}\n{rules}");
        if !others.is_empty() {
            text += &format!("  # These names stand in no rule:\n{others}");
        }
        if !self.is_policy {
            text += "  # With these rules, nothing else passes:\n";
            for network in ["0.0.0.0/0", "::/0"] {
                text +=
                    &format!("  # - type: Deny\n  #   to:\n  #     cidrSelector: \"{network}\"\n");
            }
        }
        text
    }

    /// A name in the list; `comment` is put before each line.
    fn rule(&self, name: &str, comment: &str) -> String {
        if self.is_policy {
            return format!("  {comment}- \"{name}\"\n");
        }
        let to = format!("{comment}    dnsName: \"{name}\"");
        format!("  {comment}- type: Allow\n  {comment}  to:\n  {to}\n")
    }
}

/// Why no rule can allow the name: it is in the cluster, begins with `*`, or a guard refuses its addresses.
pub(super) fn reason(asked: &Asked, cluster_domains: &[String]) -> Option<String> {
    let is_in = |domain: &String| {
        let rest = asked.name.strip_suffix(domain.as_str());
        rest.is_some_and(|rest| rest.ends_with('.') || rest.is_empty())
    };
    if cluster_domains.iter().any(is_in) {
        return Some("in the cluster, where these rules do not apply".to_owned());
    }
    if asked.name.starts_with('*') {
        return Some(
            "a client asked for a `*`, and as a rule it would allow other names".to_owned(),
        );
    }
    let guard = asked
        .guard
        .as_ref()
        .filter(|_| asked.addresses.is_empty())?;
    Some(format!(
        "the collector refuses its addresses (guard `{guard}`)"
    ))
}

/// The parents of at least [`SIBLINGS`] names, with their number. A wildcard below a public suffix would allow sites of anybody.
fn parents(names: &BTreeSet<DnsName>) -> BTreeMap<&str, usize> {
    let mut parents = BTreeMap::new();
    for name in names {
        let name = name.as_str().trim_end_matches('.');
        if let Some((_, parent)) = name.split_once('.') {
            *parents.entry(parent).or_default() += 1;
        }
    }
    let is_public = |name: &str| psl::suffix(name.as_bytes()).is_none_or(|it| it == name);
    parents.retain(|parent, count| *count >= SIBLINGS && !is_public(parent));
    parents
}

#[cfg(test)]
mod tests {
    use proto::api::{DnsResolver, EgressFirewall};

    use super::*;

    fn asked(name: &str, count: u64) -> Asked {
        Asked {
            name: name.to_owned(),
            count,
            by: ["pod".into()].into(),
            ..Asked::default()
        }
    }

    fn proposal(asked: &[Asked], is_policy: bool) -> String {
        let proposal = Proposal {
            namespace: Some("team-a"),
            is_policy,
            cluster_domains: &["cluster.local".to_owned()],
        };
        proposal.text(asked, &["a note".to_owned()])
    }

    #[test]
    fn names_become_rules_that_the_definition_accepts() {
        let asked = [
            asked("www.example.com", 5),
            asked("_ldap._tcp.example.com", 2),
            asked("x.svc.cluster.local", 9),
        ];
        let text = proposal(&asked, false);
        let firewall: EgressFirewall = serde_saphyr::from_str(&text).unwrap();
        let names: Vec<_> = firewall
            .spec
            .egress
            .iter()
            .map(|it| it.to.dns_name.as_deref())
            .collect();
        assert_eq!(names, [Some("www.example.com")]);
        for line in [
            "  # 5 answers to 1 client",
            "  #   _ldap._tcp.example.com: label `_ldap` is not",
            "  #   x.svc.cluster.local: in the cluster",
            "  # - type: Deny",
            "  #     cidrSelector: \"::/0\"",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        let resolver: DnsResolver = serde_saphyr::from_str(&proposal(&asked, true)).unwrap();
        assert_eq!(resolver.spec.domain_list, ["www.example.com"]);
    }

    #[test]
    fn siblings_become_a_wildcard_but_never_below_a_public_suffix() {
        let names = ["a.s3.example.com", "b.s3.example.com", "c.s3.example.com"];
        let others = [
            "a.github.io",
            "b.github.io",
            "c.github.io",
            "a.co.uk",
            "b.co.uk",
            "c.co.uk",
        ];
        let pairs = ["a.two.example.com", "b.two.example.com"];
        let all = names.iter().chain(&others).chain(&pairs);
        let all: Vec<_> = all.map(|name| asked(name, 1)).collect();
        let text = proposal(&all, false);
        assert_eq!(text.matches("In place of").count(), 1, "{text}");
        assert!(
            text.contains("  #     dnsName: \"*.s3.example.com\""),
            "{text}"
        );
    }

    #[test]
    fn name_with_refused_addresses_alone_has_the_guard_as_its_reason() {
        let refused = Asked {
            guard: Some("node".to_owned()),
            ..asked("ingress.example.com", 1)
        };
        let part = Asked {
            addresses: ["192.0.2.1".parse().unwrap()].into(),
            ..refused.clone()
        };
        let text = proposal(&[refused], true);
        assert!(
            text.contains("domainList: []") && text.contains("guard `node`"),
            "{text}"
        );
        let text = proposal(&[part], true);
        assert!(text.contains("- \"ingress.example.com\""), "{text}");
    }

    #[test]
    fn names_beyond_those_of_an_object_are_comments() {
        let all: Vec<_> = (0..=MAX_DOMAINS)
            .map(|i| asked(&format!("a{i}.b{i}.test"), 1))
            .collect();
        let text = proposal(&all, true);
        let resolver: DnsResolver = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(resolver.spec.domain_list.len(), MAX_DOMAINS);
        assert!(
            text.contains("  #   a500.b500.test: the object has room for 500 names"),
            "{text}"
        );
    }
}
