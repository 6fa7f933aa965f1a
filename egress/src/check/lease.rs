//! The Leases of programs with replicas: which one leads.

use k8s_openapi::{api::coordination::v1::Lease, jiff::Timestamp};

use super::{
    facts::Facts,
    programs::{Programs, answers},
    report::{Finding, Topic},
    seen::Seen,
};

pub(crate) fn lease(facts: &Facts) -> Vec<Finding> {
    let mut topic = Topic::new("Lease");
    let programs = &facts.programs;
    let held = Held {
        program: "collector",
        namespace: &facts.settings.objects_namespace,
        lease: &facts.leases.collectors,
        has_leader: answers(&programs.collectors).any(|(_, status)| status.leader),
        is_silent: is_silent(programs),
        docs: "#egressdnsnoleader",
    };
    if let Some(holder) = held.holder(&mut topic) {
        topic.ok(format!("{holder} leads"));
    }
    topic.into()
}

/// The Lease of a program with replicas.
pub(super) struct Held<'a> {
    /// The program, and the name of its Lease.
    pub(super) program: &'static str,
    pub(super) namespace: &'a str,
    pub(super) lease: &'a Seen<Option<Lease>>,
    /// A replica says that it leads.
    pub(super) has_leader: bool,
    /// A replica runs that does not answer.
    pub(super) is_silent: bool,
    /// The section of the page about problems.
    pub(super) docs: &'static str,
}

impl Held<'_> {
    /// The holder if it leads, or else the fault.
    pub(super) fn holder(&self, topic: &mut Topic) -> Option<String> {
        let Self {
            program, namespace, ..
        } = self;
        let remedy = format!(
            "see the {program}s' logs; kubectl -n {namespace} get lease {program} -o yaml; docs/troubleshooting.md{}",
            self.docs
        );
        let lease = match self.lease {
            Ok(Some(lease)) => lease,
            Ok(None) => {
                topic.fault(format!("there is no Lease {namespace}/{program}"), remedy);
                return None;
            }
            Err(unseen) => {
                let right = format!("you need the right to get the Lease {namespace}/{program}");
                topic.unknown(unseen.0.clone(), right);
                return None;
            }
        };
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.unwrap_or_default();
        let age = spec
            .renew_time
            .map(|at| age(Timestamp::now().duration_since(at.0).as_secs()));
        match (self.has_leader, age) {
            _ if holder.is_empty() => {
                topic.fault(format!("no {program} leads: the Lease has no holder"), remedy);
            }
            (true, _) => return Some(holder),
            // The clock of this machine may differ from the cluster's.
            (false, Some(age)) if self.is_silent => topic.unknown(
                format!("{holder} renewed the Lease {age} by this machine's clock, and not every {program} answers"),
                remedy,
            ),
            (false, Some(age)) => topic.fault(
                format!("no {program} leads: {holder} renewed the Lease {age}"),
                remedy,
            ),
            (false, None) => topic.fault(
                format!("no {program} leads: {holder} never renewed the Lease"),
                remedy,
            ),
        }
        None
    }
}

/// How long ago something was; a clock that was wrong may have written a time to come.
fn age(seconds: i64) -> String {
    match seconds {
        ..0 => format!("with a time that is {} s ahead", seconds.unsigned_abs()),
        _ => format!("{seconds} s ago"),
    }
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
