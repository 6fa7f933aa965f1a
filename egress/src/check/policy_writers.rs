//! The policy-writers, and the DNSResolvers in trouble. An installation without a policy-writer has no lines about them.

use super::{
    facts::Facts,
    lease::Held,
    programs::{ASK, Faults, PolicyWriterStatus, Problem, Programs, alike, answers, unanswered},
    report::{Finding, Topic, counted},
};
use crate::targets::Kind;

const PROGRAMS: &str = "policy-writers";

/// The section of the page about problems.
const NO_LEADER: &str = "#egressdnspolicywriternoleader";

/// The source of names that needs a policy-writer.
const DNS_RESOLVER: &str = "dnsresolver";

/// The subject of problems about kinds that cannot be read. The words name these.
const STORE: &str = "store";

/// The kind of problem about one DNSResolver.
const OF_RESOLVER: &str = "DNSResolver";

/// The conditions that end by themselves in most cases, as a name that has no answer yet.
const PASSING: [&str; 2] = ["Resolved", "Written: the first write is under way"];

/// The cure of a condition, by its type.
const REMEDIES: [(&str, &str); 5] = [
    ("NameTaken", "rename the DNSResolver, or the other object"),
    ("LimitExceeded", "list fewer names in the DNSResolver"),
    (
        "DNSBlocked",
        "write a NetworkPolicy that lets pods reach UDP and TCP port 53, or set policyWriter.dnsEgress=true",
    ),
    ("Resolved", "see `egress explain NAME`"),
    ("Written", "see docs/dnsresolver.md#conditions"),
];

/// The policy-writers, and which one leads.
pub(crate) fn policy_writers(facts: &Facts) -> Vec<Finding> {
    let mut topic = Topic::new(PROGRAMS);
    let programs = &facts.programs;
    if !facts.has(Kind::PolicyWriter) {
        if is_source(facts) {
            topic.warn(
                "none makes objects of the DNSResolvers, whose names the collectors look up",
                "set policyWriter.enabled=true, or take dnsresolver out of rules.sources",
            );
        }
        return topic.into();
    }
    if programs.policy_writers.is_empty() {
        topic.fault("none is running", "see the lines about pods");
    }
    of_programs(&mut topic, programs);
    let held = facts.leases.policy_writers.as_ref().map(|lease| Held {
        program: "policy-writer",
        namespace: facts
            .settings
            .dns_resolver_objects
            .as_deref()
            .unwrap_or_default(),
        lease,
        has_leader: answers(&programs.policy_writers).any(|(_, status)| status.leader),
        is_silent: programs.policy_writers.iter().any(|it| it.answer.is_err()),
        docs: NO_LEADER,
    });
    let holder = held.and_then(|held| held.holder(&mut topic));
    topic.or_ok(|| {
        let holder = holder.unwrap_or_default();
        format!("{} answer, {holder} leads", programs.policy_writers.len())
    })
}

/// The conditions of DNSResolvers.
pub(crate) fn dns_resolvers(facts: &Facts) -> Vec<Finding> {
    if facts.has(Kind::PolicyWriter) {
        resolvers(&facts.programs)
    } else {
        Vec::new()
    }
}

/// The policy-writers at local sockets.
pub(crate) fn local(programs: &Programs) -> Vec<Finding> {
    let mut topic = Topic::new(PROGRAMS);
    of_programs(&mut topic, programs);
    let all = &programs.policy_writers;
    let all_answer = all.iter().all(|it| it.answer.is_ok());
    if all_answer && !answers(all).any(|(_, status)| status.leader) {
        topic.fault(
            "none says that it leads",
            format!("see their logs; docs/troubleshooting.md{NO_LEADER}"),
        );
    }
    let mut findings = topic.or_ok(|| format!("{} answer", all.len()));
    findings.extend(resolvers(programs));
    findings
}

fn is_source(facts: &Facts) -> bool {
    let mut sources = facts.settings.sources.iter();
    sources.any(|source| source == DNS_RESOLVER)
}

/// The kinds of objects that a policy-writer cannot read, and other faults of it.
fn of_programs(topic: &mut Topic, programs: &Programs) {
    unanswered(topic, &programs.policy_writers);
    let mut faults = Faults::default();
    for (program, status) in answers(&programs.policy_writers) {
        let problems = status.problems.iter();
        for problem in problems.filter(|it| it.reason != OF_RESOLVER) {
            faults.add_problem(program, problem);
        }
    }
    faults.tell(topic);
}

fn resolvers(programs: &Programs) -> Vec<Finding> {
    let mut topic = Topic::new("DNSResolvers");
    let Some(status) = knowing(programs) else {
        topic.unknown("no policy-writer answers", ASK);
        return topic.into();
    };
    let of_resolvers = status.problems.iter();
    let of_resolvers = of_resolvers.filter(|it| it.reason == OF_RESOLVER);
    for (Problem { words, .. }, subjects) in alike(of_resolvers) {
        let kind = words
            .split_once(':')
            .map_or(words.as_str(), |(kind, _)| kind);
        let remedy = REMEDIES.iter().find(|(it, _)| *it == kind);
        let remedy = remedy.map_or("see docs/dnsresolver.md#conditions", |(_, it)| *it);
        let seen = format!("{subjects}: {words}");
        if PASSING.iter().any(|passing| words.starts_with(passing)) {
            topic.warn(seen, remedy)
        } else {
            topic.fault(seen, remedy)
        }
    }
    if status.more_problems > 0 {
        let seen = format!("{} problems are not listed", status.more_problems);
        topic.unknown(seen, "mend the listed ones first");
    }
    let mut stores = status.problems.iter().filter(|it| it.subject == STORE);
    if stores.any(|it| it.words.contains("DNSResolver")) {
        topic.unknown(
            "the policy-writer cannot read them",
            "see the line about policy-writers",
        );
    }
    topic.or_ok(|| {
        let count = status.totals.resolvers;
        format!("{}, none in trouble", counted(count, "DNSResolver"))
    })
}

/// The status of the leading policy-writer, or of another one.
fn knowing(programs: &Programs) -> Option<&PolicyWriterStatus> {
    let all = || answers(&programs.policy_writers).map(|(_, status)| status);
    all().find(|status| status.leader).or_else(|| all().next())
}
