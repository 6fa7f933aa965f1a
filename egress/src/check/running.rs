//! The collectors and the ovn-writers that run, and the databases of these.

use std::collections::BTreeSet;

use runtime::inspect::text::few;

use super::{
    programs::{Database, Faults, MOST_NAMED, Programs, WriterStatus, answers, unanswered},
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
    let mut faults = Faults::default();
    let (mut standby, mut dry) = (0, Vec::new());
    for (program, status) in answers(&programs.writers) {
        writer(&mut faults, program, status);
        match status.idle.as_deref() {
            Some("dry-run") => dry.push(program),
            Some(_) => standby += 1,
            None => {}
        }
    }
    faults.tell(&mut topic);
    if standby > 0 && standby == programs.writers.len() {
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
            "remove --dry-run once its log shows no change that you do not want",
        );
    }
    topic.or_ok(|| {
        let all = programs.writers.len();
        match standby {
            0 => format!("{all} write, each has its database"),
            standby => format!(
                "{} write, {standby} stand by; each has its database",
                all - standby
            ),
        }
    })
}

fn writer<'a>(faults: &mut Faults<'a>, program: &'a str, status: &WriterStatus) {
    let Database {
        remote,
        is_connected,
    } = &status.database;
    if !is_connected {
        let remedy = "see that this database runs; in a cluster ovnWriter.interconnect.runDir and .socket (or \
                      ovnWriter.central.remotes) name it, elsewhere --nb";
        let what = format!("no connection to the database {remote}");
        faults.add(program, what, remedy.to_owned());
    }
    let problems = status.problems.iter();
    // The topic of address sets tells which ones differ.
    let problems = problems.filter(|it| it.reason != "SetDiffers");
    // Without its database the writer lists that as a problem, too.
    for problem in problems.filter(|it| *is_connected || it.reason != "Condition") {
        faults.add_problem(program, problem);
    }
}
