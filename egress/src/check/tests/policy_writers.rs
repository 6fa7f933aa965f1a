//! The policy-writers.

use serde_json::json;

use super::{
    assert_found,
    facts::{collector, of, policy_writer, well},
};
use crate::check::{
    facts::Facts,
    policy_writers::{dns_resolvers, local, policy_writers},
    programs::{PolicyWriterStatus, Problem, Said},
    seen::{Seen, Unseen},
};

fn problem(reason: &str, subject: &str, words: &str) -> Problem {
    Problem {
        reason: reason.to_owned(),
        subject: subject.to_owned(),
        words: words.to_owned(),
        docs: "dnsresolver.md".to_owned(),
    }
}

fn with(answer: Seen<PolicyWriterStatus>) -> Facts {
    let mut facts = well();
    facts.workloads = Ok(vec![collector(), policy_writer()]);
    facts.settings.dns_resolver_objects = Some("names".to_owned());
    facts.leases.policy_writers = Some(Ok(Some(of(json!({ "spec": {
        "holderIdentity": "p-1", "renewTime": "2026-01-01T00:00:00.000000Z",
    }})))));
    let program = "policy-writer p-1 on node a".to_owned();
    facts.programs.policy_writers = vec![Said { program, answer }];
    facts
}

fn leader(problems: &[Problem]) -> PolicyWriterStatus {
    PolicyWriterStatus {
        leader: true,
        problems: problems.to_vec(),
        ..PolicyWriterStatus::default()
    }
}

#[test]
fn an_installation_without_a_policy_writer_has_no_lines_about_it() {
    let mut facts = well();
    assert_eq!(policy_writers(&facts), Vec::new());
    assert_eq!(dns_resolvers(&facts), Vec::new());
    facts.settings.sources.push("dnsresolver".to_owned());
    assert_found(policy_writers(&facts), "!", "policyWriter.enabled=true");
    assert_eq!(dns_resolvers(&facts), Vec::new());
}

#[test]
fn a_policy_writer_leads_and_reads_all_kinds() {
    let facts = with(Ok(leader(&[])));
    assert_found(policy_writers(&facts), "✓", "1 answer, p-1 leads");
    assert_found(dns_resolvers(&facts), "✓", "0 DNSResolvers");
    let unread = problem("Condition", "store", "not read yet: NetworkSet");
    let facts = with(Ok(leader(&[unread])));
    assert_found(
        policy_writers(&facts),
        "✗",
        "store: not read yet: NetworkSet",
    );
    assert_found(dns_resolvers(&facts), "✓", "");
    let unread = "DNSResolver objects cannot be read: no right";
    let facts = with(Ok(leader(&[problem("Condition", "store", unread)])));
    assert_found(dns_resolvers(&facts), "?", "cannot read them");
    let facts = with(Ok(PolicyWriterStatus::default()));
    assert_found(policy_writers(&facts), "✗", "no policy-writer leads: p-1");
    assert_found(local(&facts.programs), "✗✓", "none says that it leads");
    let mut facts = with(Err(Unseen("no".to_owned())));
    assert_found(
        policy_writers(&facts),
        "??",
        "not every policy-writer answers",
    );
    assert_found(dns_resolvers(&facts), "?", "no policy-writer answers");
    facts.leases.policy_writers = Some(Ok(None));
    facts.programs.policy_writers.clear();
    assert_found(
        policy_writers(&facts),
        "✗✗",
        "there is no Lease names/policy-writer",
    );
}

#[test]
fn dns_resolvers_in_trouble_are_named_with_their_cure() {
    let of = |name: &str, words: &str| problem("DNSResolver", name, words);
    let facts = with(Ok(leader(&[
        of("team-a/one", "DNSBlocked: no NetworkPolicy"),
        of("team-b/two", "DNSBlocked: no NetworkPolicy"),
        of("team-b/two", "Resolved: no answer yet: a.example.com"),
        of("team-c/three", "NameTaken: not written"),
    ])));
    assert_found(policy_writers(&facts), "✓", "");
    let found = dns_resolvers(&facts);
    assert_found(found.clone(), "✗✗!", "policyWriter.dnsEgress=true");
    let named = "team-a/one, team-b/two: DNSBlocked: no NetworkPolicy";
    assert_found(found.clone(), "✗✗!", named);
    assert_found(found, "✗✗!", "egress explain NAME");
}
