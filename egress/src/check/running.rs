//! The programs that run, and what they report.

use std::collections::BTreeSet;

use proto::{
    api::DnsName,
    facts::{Idle, OvnWriterFacts, Problem, Program},
    text::few,
};

use super::{
    dns_servers::STREAMS,
    facts::Facts,
    programs::{Programs, Reported, answers, knowing, problems, tell, unanswered},
    report::{Finding, Topic, counted},
};
use crate::output::MOST_NAMED;

/// The code of a problem that the topic of address sets tells.
const SET_DIFFERS: &str = "SetDiffers";

/// What to do where no program of a kind answers.
const SEE_ABOVE: &str = "see the lines above";

/// The source of names that needs a policy-writer.
const DNS_RESOLVER: &str = "dnsresolver";

/// Whether all replicas answer, with one version, and one leads.
fn replicas(name: &'static str, all: &[Reported], docs: &str) -> Topic {
    let mut topic = Topic::new(name);
    if all.is_empty() {
        topic.fault("none is running", "see the lines about pods");
        return topic;
    }
    unanswered(&mut topic, all);
    let versions = answers(all).map(|(_, it)| it.head.version.as_str());
    let versions: BTreeSet<_> = versions.collect();
    if versions.len() > 1 {
        topic.warn(
            format!(
                "they have different versions: {}",
                few(versions.iter(), MOST_NAMED)
            ),
            "wait for the end of the rollout: kubectl rollout status",
        );
    }
    let leads = answers(all).any(|(_, status)| status.head.leader);
    let remedy = format!("see their logs; docs/troubleshooting.md{docs}");
    match all.iter().all(|it| it.answer.is_ok()) {
        _ if leads => {}
        true => topic.fault("none leads", remedy),
        false => topic.unknown("none that answers leads", remedy),
    }
    topic
}

/// What the replicas that answered look like.
fn well(all: &[Reported]) -> String {
    let version = answers(all).map(|(_, it)| it.head.version.as_str()).next();
    let leader = answers(all).find(|(_, it)| it.head.leader);
    let leader = leader.map_or("", |(program, _)| program);
    let version = version.unwrap_or_default();
    format!(
        "{} answer, version {version}, the {leader} leads",
        all.len()
    )
}

pub(crate) fn collectors(programs: &Programs) -> Vec<Finding> {
    let all = &programs.collectors;
    replicas("Collectors", all, "#egressdnsnoleader").or_ok(|| well(all))
}

/// Rules and names in trouble, and limits.
pub(crate) fn names(programs: &Programs) -> Vec<Finding> {
    let mut topic = Topic::new("Rules and names");
    let Some((program, status)) = knowing(&programs.collectors) else {
        topic.unknown("no collector answers", SEE_ABOVE);
        return topic.into();
    };
    let problems = status.problems.listed.iter();
    let problems = problems.filter(|it| !STREAMS.contains(&&*it.code));
    tell(&mut topic, problems.map(|it| (program, it)));
    of_more(&mut topic, status.problems.more);
    let count = status.collector.as_ref().map_or(0, |it| it.name_count);
    if count == 0 {
        topic.warn(
            "no rule has a name, so no address set is made",
            "make a first rule: docs/install.md#a-first-rule; in a folder: docs/without-kubernetes.md#a-rule",
        );
    }
    topic.or_ok(|| {
        format!(
            "{}, none in trouble, none over a limit",
            counted(count, "name")
        )
    })
}

fn of_more(topic: &mut Topic, more: usize) {
    if more > 0 {
        let seen = format!("{more} more problems are not listed");
        topic.unknown(seen, "mend the listed ones first");
    }
}

/// The ovn-writers; `has_none` says why there is none, if there should be none.
pub(crate) fn writers(programs: &Programs, has_none: Option<&str>) -> Vec<Finding> {
    let mut topic = Topic::new("ovn-writers");
    let all = &programs.writers;
    if let (true, Some(why)) = (all.is_empty(), has_none) {
        return topic.or_ok(|| why.to_owned());
    }
    unanswered(&mut topic, all);
    if all.is_empty() {
        topic.fault("none is running", "see the lines about pods and nodes");
    }
    let (mut standby, mut dry) = (0, Vec::new());
    for (program, facts) in sets_of(programs) {
        match facts.idle {
            Some(Idle::DryRun) => dry.push(program),
            Some(Idle::Standby) => standby += 1,
            None => {}
        }
    }
    // The topic of address sets tells which ones differ.
    tell(&mut topic, problems(all, |code| code != SET_DIFFERS));
    if standby > 0 && standby == all.len() {
        topic.fault(
            format!("none of {standby} writes: all stand by"),
            "see their logs; docs/troubleshooting.md#egressdnsnoleader",
        );
    }
    if !dry.is_empty() {
        topic.warn(
            format!(
                "the {} writes nothing: --dry-run",
                few(dry.iter(), MOST_NAMED)
            ),
            "remove --dry-run once its output shows no change that you do not want",
        );
    }
    topic.or_ok(|| match standby {
        0 => format!("{} write, each has its database", all.len()),
        _ => format!(
            "{} write, {standby} stand by; each has its database",
            all.len() - standby
        ),
    })
}

fn sets_of(programs: &Programs) -> impl Iterator<Item = (&str, &OvnWriterFacts)> {
    let all = answers(&programs.writers);
    all.filter_map(|(program, status)| Some((program, status.ovn_writer.as_ref()?)))
}

/// The sets of all databases, and whether rules refer to them; `has_none` says why no ovn-writer compares them, if there should be
/// none.
pub(crate) fn sets(programs: &Programs, has_none: Option<&str>) -> Vec<Finding> {
    let mut topic = Topic::new("Address sets");
    let all = &programs.writers;
    if let (true, Some(why)) = (all.is_empty(), has_none) {
        topic.warn(
            format!("not compared with the statuses: {why}"),
            "see docs/troubleshooting.md#see-the-address-sets",
        );
        return topic.into();
    }
    let answered = answers(all).count();
    if answered == 0 {
        topic.unknown("no ovn-writer answers that compares them", SEE_ABOVE);
        return topic.into();
    }
    let remedy = "see `egress verify` and the log of this ovn-writer; if another program writes these rows, stop it";
    for (program, status) in answers(all) {
        let mut conditions = status.conditions.iter();
        if let Some(it) = conditions.find(|it| !it.holds) {
            let why = it.reason.as_deref().unwrap_or_default();
            let seen = format!("the {program} has not compared them: {}: {why}", it.name);
            topic.unknown(seen, SEE_ABOVE);
        }
    }
    let differing = problems(all, |code| code == SET_DIFFERS).map(|(program, it)| {
        let set = format!("{}, {}", it.subject, it.sentence);
        let sentence = "the set differs from the statuses";
        (program, Problem::fault(SET_DIFFERS, set, sentence, remedy))
    });
    let mut found: Vec<(&str, Problem)> = differing.collect();
    // A name whose last rule went keeps its object for ten minutes.
    let collector = knowing(&programs.collectors);
    let without_rule = collector.and_then(|(_, status)| status.collector.as_ref());
    let without_rule: BTreeSet<&DnsName> = without_rule
        .iter()
        .flat_map(|it| &it.names_without_rule)
        .collect();
    for (program, facts) in sets_of(programs) {
        let unreferenced = facts.unreferenced.iter();
        let unreferenced = unreferenced.filter(|name| !without_rule.contains(name));
        found.extend(unreferenced.map(|name| {
            let sentence = "no rule in OVN's database refers to its sets, so they pass no packets";
            let remedy = "see that ovn-kubernetes runs, and the status of the EgressFirewall with this name: kubectl get egressfirewalls -A; without ovn-kubernetes, \
                          name the set in an ACL (docs/without-kubernetes.md#an-acl)";
            (program, Problem::fault("NoRule", name.as_str(), sentence, remedy))
        }));
    }
    tell(&mut topic, found.iter().map(|(program, it)| (*program, it)));
    topic.or_ok(|| {
        let objects = sets_of(programs).map(|(_, it)| it.objects).max();
        let objects = counted(objects.unwrap_or(0), "object");
        let places = counted(answered, "ovn-writer");
        format!("the same as the statuses of {objects}, at {places}")
    })
}

/// The policy-writers of a cluster, and the conditions of DNSResolvers.
pub(crate) fn policy_writers(facts: &Facts) -> Vec<Finding> {
    if facts.has(Program::PolicyWriter) {
        return local_policy_writers(&facts.programs);
    }
    let mut topic = Topic::new("policy-writers");
    if facts.settings.sources.iter().any(|it| it == DNS_RESOLVER) {
        topic.warn(
            "none makes objects of the DNSResolvers, whose names the collectors look up",
            "set policyWriter.enabled=true, or take dnsresolver out of rules.sources",
        );
    }
    topic.into()
}

/// The same for programs at local sockets.
pub(crate) fn local_policy_writers(programs: &Programs) -> Vec<Finding> {
    let all = &programs.policy_writers;
    let topic = replicas("policy-writers", all, "#egressdnspolicywriternoleader");
    let mut findings = topic.or_ok(|| well(all));
    let mut topic = Topic::new("DNSResolvers");
    let Some((program, status)) = knowing(all) else {
        topic.unknown("no policy-writer answers", SEE_ABOVE);
        findings.extend(Vec::from(topic));
        return findings;
    };
    tell(
        &mut topic,
        status.problems.listed.iter().map(|it| (program, it)),
    );
    of_more(&mut topic, status.problems.more);
    findings.extend(topic.or_ok(|| {
        let count = status
            .policy_writer
            .as_ref()
            .map_or(0, |it| it.totals.resolvers);
        format!("{}, none in trouble", counted(count, "DNSResolver"))
    }));
    findings
}
