//! The Lease of the leading collector.

use k8s_openapi::jiff::Timestamp;

use super::{
    facts::Facts,
    programs::{Programs, answers},
    report::{Finding, Topic},
};

pub(crate) fn lease(facts: &Facts) -> Vec<Finding> {
    let mut topic = Topic::new("Lease");
    let namespace = &facts.settings.lease_namespace;
    let remedy = format!(
        "see the collectors' logs; kubectl -n {namespace} get lease collector -o yaml; docs/troubleshooting.md#egressdnsnoleader"
    );
    let programs = &facts.programs;
    let leading = answers(&programs.collectors).find(|(_, status)| status.leader);
    match (&facts.lease, leading) {
        (Err(unseen), _) => topic.unknown(
            unseen.0.clone(),
            format!("you need the right to get the Lease {namespace}/collector"),
        ),
        (Ok(None), _) => topic.fault(format!("there is no Lease {namespace}/collector"), remedy),
        (Ok(Some(lease)), leading) => {
            let spec = lease.spec.clone().unwrap_or_default();
            let holder = spec.holder_identity.unwrap_or_default();
            let age = spec
                .renew_time
                .map(|at| Timestamp::now().duration_since(at.0).as_secs());
            match (leading, age) {
                _ if holder.is_empty() => {
                    topic.fault("no collector leads: the Lease has no holder", remedy)
                }
                (Some(_), _) => topic.ok(format!("{holder} leads")),
                // The clock of this machine may differ from the cluster's.
                (None, Some(age)) if is_silent(programs) => topic.unknown(
                    format!("{holder} renewed the Lease {age} s ago by this machine's clock, and not every collector answers"),
                    remedy,
                ),
                (None, Some(age)) => topic.fault(
                    format!("no collector leads: {holder} renewed the Lease {age} s ago"),
                    remedy,
                ),
                (None, None) => topic.fault(
                    format!("no collector leads: {holder} never renewed the Lease"),
                    remedy,
                ),
            }
        }
    }
    topic.into()
}

/// Whether a collector runs that does not answer.
fn is_silent(programs: &Programs) -> bool {
    programs.collectors.iter().any(|it| it.answer.is_err())
}

fn all_answer(programs: &Programs) -> bool {
    let all = &programs.collectors;
    !all.is_empty() && all.iter().all(|it| it.answer.is_ok())
}

/// Which collector leads, of those at local sockets.
pub(crate) fn local(programs: &Programs) -> Vec<Finding> {
    let mut topic = Topic::new("Leader");
    let remedy = "see the collectors' logs; docs/troubleshooting.md#egressdnsnoleader";
    let leading = answers(&programs.collectors).find(|(_, status)| status.leader);
    match leading {
        Some((program, _)) => topic.ok(format!("the {program} leads")),
        None if all_answer(programs) => topic.fault("no collector says that it leads", remedy),
        None => topic.unknown("not every collector answers", remedy),
    }
    topic.into()
}
