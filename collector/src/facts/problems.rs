//! The faults that need an administrator, derived from the [`Status`].

use proto::facts::FailingName;
use runtime::{
    admin::Condition,
    inspect::{
        problems::{Problem, Problems},
        text::printable,
    },
    store::ObjectKey,
};

use crate::facts::status::{FaultStatus, Status};
use crate::{
    flush::{BlockState, BlockView},
    publish::NameView,
    rules::is_policy,
};

const STORE: &str = "troubleshooting.md#egressdnsstoreunreadable";
const LIMITS: &str = "limits.md#a-namespace-over-its-limits";

/// The response code REFUSED (RFC 1035 section 4.1.1).
const REFUSED: u8 = 5;

/// All problems, those of the whole cluster first.
pub(super) fn find(status: &Status) -> Problems {
    let mut problems = Problems::default();
    problems.extend(status.conditions.iter().filter_map(of_condition));
    problems.extend(status.dns_blocks.iter().filter_map(of_block));
    problems.extend(status.bad_objects.iter().map(Problem::of_bad_object));
    let namespaces = status.view.namespaces.iter();
    problems.extend(namespaces.map(|at_cap| Problem {
        reason: "NamespaceAtCap",
        subject: match is_policy(&at_cap.namespace) {
            true => at_cap.namespace.to_string(),
            false => format!("namespace {}", at_cap.namespace),
        },
        words: format!(
            "it is at a cap: it has {} addresses of names, and {} names are left out",
            at_cap.addresses, at_cap.names_left_out
        ),
        docs: LIMITS,
    }));
    problems.extend(status.faults.iter().filter_map(of_fault));
    problems.extend(status.view.names.iter().filter_map(of_name));
    problems
}

fn of_condition(condition: &Condition) -> Option<Problem> {
    let docs = match condition.name {
        "store-writes" => "troubleshooting.md#egressdnsstatuseslate",
        _ => STORE,
    };
    Problem::of_condition(condition, docs)
}

fn of_block(block: &BlockView) -> Option<Problem> {
    let words = block_trouble(block)?;
    Some(Problem {
        reason: match block.state {
            BlockState::Forwards => "DnsServerForwardsProbes",
            _ => "DnsServerSendsNoDnstap",
        },
        subject: format!("DNS server {}", block.server),
        words: format!("{}: {words}", block.name),
        docs: "troubleshooting.md#egressdnsserversendsnodnstap",
    })
}

/// The fault of a server block.
fn block_trouble(block: &BlockView) -> Option<&'static str> {
    Some(match (block.state, block.rcode) {
        (BlockState::Forwards, _) => {
            "it forwards the probe, so its stream may be a second late: give a name that it answers by itself (--flush-name)"
        }
        (BlockState::NotStreaming, None) => "no stream for 30 s, and it does not answer",
        (BlockState::NotStreaming, Some(REFUSED)) => {
            "no stream for 30 s: it has no server block for this name"
        }
        (BlockState::NotStreaming, Some(_)) => {
            "no stream for 30 s, though it answers: check the `dnstap` line of this server block"
        }
        _ => return None,
    })
}

fn of_fault(fault: &FaultStatus) -> Option<Problem> {
    let first = fault.subjects.first();
    let subjects = match first {
        Some(first) if fault.count > 1 => format!(": {first} and {} more", fault.count - 1),
        Some(first) => format!(": {first}"),
        None => String::new(),
    };
    (!fault.is_advice).then(|| Problem {
        reason: fault.reason,
        subject: format!("{} {}", fault.kind, fault.object),
        words: format!("{}{}", fault.meaning, printable(&subjects)),
        docs: "egress.md#reasons",
    })
}

fn of_name(name: &NameView) -> Option<Problem> {
    let troubles = name_troubles(name);
    let (reason, _) = troubles.first()?;
    let words: Vec<_> = troubles.iter().map(|(_, words)| words.as_str()).collect();
    Some(Problem {
        reason,
        subject: name.name.to_string(),
        words: words.join("; "),
        docs: match *reason {
            "LeftOut" => LIMITS,
            "Full" | "Evicted" => "troubleshooting.md#egressdnslimitnear",
            "NotWritten" => "troubleshooting.md#egressdnsstatuseslate",
            _ => "troubleshooting.md#egressdnsnamewithoutaddresses",
        },
    })
}

/// Why an administrator should look at a name, each with its kind for programs. A wildcard without
/// addresses is no fault: no pod asked for a name under it.
fn name_troubles(name: &NameView) -> Vec<(&'static str, String)> {
    let mut troubles = Vec::new();
    let mut add = |reason, words: String| troubles.push((reason, words));
    if name.full {
        let words = format!(
            "its object is full: the latest addresses were left out, and traffic to them is not blocked ({} times)",
            name.evictions.addresses
        );
        add("Full", words);
    }
    if name.left_out {
        let words = "left out: its namespaces have too many names";
        add("LeftOut", words.to_owned());
    } else if name.addresses == 0 && !name.name.is_wildcard() {
        let words = match name.fruitless_lookups {
            0 => "no address yet".to_owned(),
            lookups => format!("no address in {lookups} look-ups"),
        };
        add("NoAddress", words);
    }
    let more = name.failing.saturating_sub(name.failures.len());
    for failure in &name.failures {
        add("LookupFails", failing(failure));
    }
    if more > 0 {
        let words = format!("{more} more names cannot be looked up");
        add("LookupFails", words);
    }
    if name.failed_writes > 0 {
        add(
            "NotWritten",
            format!("{} writes failed", name.failed_writes),
        );
    }
    match name.objects.len() {
        0 => add("NoObject", "no object".to_owned()),
        _ if are_several_of_one_source(&name.objects) => {
            add("SeveralObjects", "several objects".to_owned());
        }
        _ => {}
    }
    if name.evictions.addresses > 0 && !name.full {
        let words = format!("{} addresses left out", name.evictions.addresses);
        add("Evicted", words);
    }
    if name.evictions.names > 0 {
        let words = format!("{} names left out", name.evictions.names);
        add("Evicted", words);
    }
    troubles
}

/// Whether two objects are in one namespace. A name of two sources has an object for each, and
/// kube-OVN makes one for each policy, in no namespace.
fn are_several_of_one_source(objects: &[ObjectKey]) -> bool {
    let namespaces = objects.iter().map(|key| &key.namespace);
    let mut namespaces: Vec<_> = namespaces.filter(|it| !it.is_empty()).collect();
    let count = namespaces.len();
    namespaces.sort_unstable();
    namespaces.dedup();
    namespaces.len() < count
}

fn failing(failure: &FailingName) -> String {
    let reason = failure.reason.as_deref().unwrap_or("failed before");
    format!(
        "{}: {reason}, {} look-ups failed",
        failure.name, failure.failures
    )
}

#[cfg(test)]
mod tests;
