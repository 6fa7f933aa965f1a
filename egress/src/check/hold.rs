//! The forwarders that hold answers, and whether CoreDNS asks them.

use std::net::{IpAddr, SocketAddr};

use proto::{facts::HoldFacts, text::few};

use super::{
    facts::Facts,
    programs::answers,
    report::{Finding, Topic},
    streaming,
};
use crate::output::MOST_NAMED;

const PATCH: &str = "let CoreDNS ask the forwarders first, or no more: egress corefile patch --live --hold [--remove]";

/// Nothing without a forwarder.
pub(crate) fn hold(facts: &Facts) -> Vec<Finding> {
    let mut topic = Topic::new("Held answers");
    let statuses = answers(&facts.programs.collectors);
    let held = statuses.filter_map(|(_, it)| it.collector.as_ref()?.hold.as_ref());
    let held: Vec<&HoldFacts> = held.collect();
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
    if held.iter().any(|it| it.passing) {
        let seen = "a collector passes all answers, since an administrator set it so";
        topic.warn(seen, "egress hold hold");
    }
    topic.or_ok(|| format!("CoreDNS asks {named} first, and the leader listens"))
}
