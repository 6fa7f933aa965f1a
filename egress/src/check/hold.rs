//! The forwarders that hold answers, and whether CoreDNS asks them.

use std::net::{IpAddr, SocketAddr};

use proto::{facts::HoldFacts, text::few};

use super::{
    facts::Facts,
    programs::{Programs, answers},
    report::{Finding, Topic},
    streaming,
};
use crate::output::MOST_NAMED;

const PATCH: &str = "let CoreDNS ask the forwarders first, or no more: egress corefile patch --live --hold [--remove]";

/// One of so many answers may be sent early, and one of so many queries be lost.
const EARLY: u64 = 20;

/// Nothing without a forwarder.
pub(crate) fn hold(facts: &Facts) -> Vec<Finding> {
    let services = facts.services.as_deref().unwrap_or_default();
    let own = services.iter().map(|it| it.spec.cluster_ip.parse());
    let own: Vec<IpAddr> = own.filter_map(Result::ok).collect();
    let asked = streaming::upstreams(facts).map(|all| {
        let asked = all.iter().filter_map(|it| it.parse().ok());
        Vec::from_iter(asked.filter(|it: &SocketAddr| own.contains(&it.ip())))
    });
    found(&facts.programs, asked.as_deref())
}

/// The same without a cluster, where no Corefile is seen.
pub(crate) fn local(programs: &Programs) -> Vec<Finding> {
    found(programs, None)
}

/// `asked`: the forwarders that CoreDNS asks, if its Corefile is seen.
fn found(programs: &Programs, asked: Option<&[SocketAddr]>) -> Vec<Finding> {
    let mut topic = Topic::new("Held answers");
    let statuses = answers(&programs.collectors);
    let held = statuses.filter_map(|(_, it)| it.collector.as_ref()?.hold.as_ref());
    let held: Vec<&HoldFacts> = held.collect();
    let is_asked = asked.map(|it| !it.is_empty());
    if held.is_empty() && is_asked != Some(true) {
        return Vec::new();
    }
    let named = asked.map(|it| few(it.iter(), MOST_NAMED));
    if is_asked == Some(false) {
        topic.warn(
            "no server block of the Corefile asks the collectors first",
            PATCH,
        );
    } else if !held.iter().any(|it| it.listening) {
        let seen = "no collector listens for queries of CoreDNS";
        match &named {
            Some(named) => topic.fault(format!("{seen}, which asks {named}"), PATCH),
            None => topic.fault(seen, "see the log"),
        }
    }
    tell_early(&mut topic, &held);
    topic.or_ok(|| match named {
        Some(named) => format!("CoreDNS asks {named} first, and the leader listens"),
        None => "the leader listens".to_owned(),
    })
}

/// Answers that were not held long enough, and queries without a reply.
fn tell_early(topic: &mut Topic, held: &[&HoldFacts]) {
    if held.iter().any(|it| it.passing) {
        let seen = "a collector passes all answers, since an administrator set it so";
        topic.warn(seen, "egress hold hold");
    }
    let queries: u64 = held.iter().map(|it| it.queries).sum();
    let unanswered: u64 = held.iter().map(|it| it.unanswered).sum();
    if unanswered * EARLY > queries {
        let seen =
            format!("no upstream of a forwarder replied to {unanswered} of {queries} queries");
        topic.fault(
            seen,
            "see the upstreams of --hold-listen: CoreDNS answers without holding",
        );
    }
    let early: u64 = held.iter().map(|it| it.early).sum();
    let all: u64 = early + held.iter().map(|it| it.held).sum::<u64>();
    if early * EARLY > all {
        let seen = format!(
            "{early} of {all} answers with new addresses were sent before their status was written"
        );
        topic.warn(seen, "a status with many names is written less often: use rules with fewer names under each wildcard");
    }
}
