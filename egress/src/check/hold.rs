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
    let mut topic = Topic::new("Held answers");
    let held = forwarders(&facts.programs);
    let services = facts.services.as_deref().unwrap_or_default();
    let specs = services.iter().filter_map(|it| it.spec.as_ref());
    let own = specs.filter_map(|spec| spec.cluster_ip.as_ref()?.parse().ok());
    let own: Vec<IpAddr> = own.collect();
    let asked = streaming::upstreams(facts).map(|all| {
        let asked = all.iter().filter_map(|it| it.parse::<SocketAddr>().ok());
        asked.filter(|it| own.contains(&it.ip())).collect()
    });
    let asked: Option<Vec<SocketAddr>> = asked;
    let is_asked = asked.as_ref().map(|it| !it.is_empty());
    if held.is_empty() && is_asked != Some(true) {
        return Vec::new();
    }
    let named = few(asked.as_deref().unwrap_or_default().iter(), MOST_NAMED);
    if is_asked == Some(false) {
        topic.warn(
            "no server block of the Corefile asks the collectors first",
            PATCH,
        );
    } else if !held.iter().any(|it| it.listening) {
        let seen = format!("no collector listens for queries of CoreDNS, which asks {named}");
        topic.fault(seen, PATCH);
    }
    answers_of(&mut topic, &held);
    topic.or_ok(|| format!("CoreDNS asks {named} first, and the leader listens"))
}

/// The same without a cluster, where no Corefile is seen.
pub(crate) fn local(programs: &Programs) -> Vec<Finding> {
    let held = forwarders(programs);
    if held.is_empty() {
        return Vec::new();
    }
    let mut topic = Topic::new("Held answers");
    if !held.iter().any(|it| it.listening) {
        topic.fault("no collector listens for queries of CoreDNS", "see the log");
    }
    answers_of(&mut topic, &held);
    topic.or_ok(|| "the leader listens".to_owned())
}

fn forwarders(programs: &Programs) -> Vec<&HoldFacts> {
    let statuses = answers(&programs.collectors);
    let held = statuses.filter_map(|(_, it)| it.collector.as_ref()?.hold.as_ref());
    held.collect()
}

/// Answers that were not held long enough.
fn answers_of(topic: &mut Topic, held: &[&HoldFacts]) {
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
