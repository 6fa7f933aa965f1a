//! The collectors and the ovn-writers that run, and the databases of these.

use std::collections::BTreeSet;

use runtime::inspect::text::few;

use super::{
    programs::{Database, MOST_NAMED, Programs, WriterStatus, add, answers, unanswered},
    report::{Finding, Topic},
};

pub(crate) fn collectors(programs: &Programs) -> Vec<Finding> {
    let mut topic = Topic::new("Collectors");
    unanswered(&mut topic, &programs.collectors);
    let versions = answers(&programs.collectors).map(|(_, it)| it.version.as_str());
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
    if programs.collectors.is_empty() {
        topic.fault("none is running", "see the lines about pods");
    }
    topic.or_ok(|| {
        let version = versions.first().copied().unwrap_or_default();
        format!("{} answer, version {version}", programs.collectors.len())
    })
}

/// The ovn-writers; `has_none` says why there is none, if there should be none.
pub(crate) fn writers(programs: &Programs, has_none: Option<&str>) -> Vec<Finding> {
    let mut topic = Topic::new("ovn-writers");
    if let (true, Some(why)) = (programs.writers.is_empty(), has_none) {
        return topic.or_ok(|| why.to_owned());
    }
    unanswered(&mut topic, &programs.writers);
    if programs.writers.is_empty() {
        topic.fault("none is running", "see the lines about pods and nodes");
    }
    let mut idle = 0;
    for (program, status) in answers(&programs.writers) {
        writer(&mut topic, program, status);
        idle += usize::from(status.idle.is_some());
    }
    topic.or_ok(|| {
        let all = programs.writers.len();
        match idle {
            0 => format!("{all} write, each has its database"),
            idle => format!(
                "{} write, {idle} stand by; each has its database",
                all - idle
            ),
        }
    })
}

fn writer(topic: &mut Topic, program: &str, status: &WriterStatus) {
    let Database {
        remote,
        is_connected,
        is_responsive,
    } = &status.database;
    let has_database = *is_connected && *is_responsive;
    if !has_database {
        let what = match is_connected {
            false => "has no connection to its database",
            true => "gets no answer of its database",
        };
        topic.fault(
            format!("the {program} {what} {remote}"),
            "see that this database runs; in a cluster ovnWriter.interconnect.runDir and .socket (or ovnWriter.central.remotes) \
             name it, elsewhere --nb",
        );
    }
    // Without its database the writer lists that as a problem, too.
    let problems = status.problems.iter();
    for problem in problems.filter(|it| has_database || it.reason != "Condition") {
        add(topic, program, problem);
    }
    if status.more_problems > 0 {
        topic.fault(
            format!("the {program} has {} more problems", status.more_problems),
            "see its status page",
        );
    }
    if status.idle.as_deref() == Some("dry-run") {
        topic.warn(
            format!("the {program} writes nothing: --dry-run"),
            "remove --dry-run once its log shows no change that you do not want",
        );
    }
}
