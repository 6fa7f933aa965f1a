//! What every program tells of itself.

use proto::{
    facts::{Head, Problem, Problems, Program, Status},
    timestamp::Timestamp,
};

use super::history::History;
use crate::{
    admin::Health, instance::Instance, shutdown::Tasks, store::BadObjects, telemetry::Exporter,
};

/// The process: where it runs, whether it is ready, and its history.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// Where it runs.
    pub instance: Instance,
    /// The conditions of readiness.
    pub health: Health,
    /// Objects that cannot be decoded.
    pub bad_objects: BadObjects,
    /// The values of the last hour.
    pub history: History,
}

impl Process {
    /// This process, whose history is sampled from now on.
    pub fn start(
        program: Program,
        health: &Health,
        bad_objects: BadObjects,
        history: History,
        exporter: &Exporter,
        tasks: &mut Tasks,
    ) -> Self {
        let sampling = history.clone().run(exporter.clone(), tasks.token());
        tasks.spawn("history", sampling);
        Self {
            instance: Instance::from_env(program),
            health: health.clone(),
            bad_objects,
            history,
        }
    }

    /// The head of an answer.
    pub fn head(&self, leader: bool, now: Timestamp) -> Head {
        self.instance.head(leader, now)
    }

    /// A status without the part of the program.
    pub fn status(&self, leader: bool, now: Timestamp) -> Status {
        let head = self.head(leader, now);
        let conditions = self.health.conditions();
        let mut problems = Problems::default();
        problems.extend(conditions.iter().filter_map(|it| {
            let reason = it.reason.clone()?;
            let remedy = remedy(head.program, &it.name);
            let problem = Problem::fault("Condition", &it.name, reason, remedy);
            Some(if it.holds { problem.warning() } else { problem })
        }));
        problems.extend(self.bad_objects.list().into_iter().map(|bad| {
            let subject = format!("{} {}", bad.kind, bad.place);
            let remedy = match bad.place.starts_with('/') {
                true => "mend the file: docs/without-kubernetes.md#a-rule",
                false => "mend it: docs/troubleshooting.md#egressdnsstoreunreadable",
            };
            Problem::fault("ObjectFault", subject, bad.fault, remedy)
        }));
        Status {
            head,
            problems,
            conditions,
            history: self.history.series(),
            ..Status::default()
        }
    }
}

fn remedy(program: Program, condition: &str) -> &'static str {
    match (program, condition) {
        (Program::PolicyWriter, _) => "see docs/dnsresolver.md#conditions",
        (_, "store-writes") => "see docs/troubleshooting.md#egressdnsstatuseslate",
        (_, "northbound") => "see docs/troubleshooting.md#egressdnsnorthboundoutofsync",
        _ => "see docs/troubleshooting.md#egressdnsstoreunreadable",
    }
}
