//! The fields of `/status.json`.

use runtime::{
    VERSION,
    admin::{Condition, Health},
    inspect::problems::{Problem, Problems},
    instance::Instance,
    store::{BadObject, BadObjects},
};
use serde::Serialize;

use crate::{
    PROGRAM,
    explain::{SetShown, Snapshot},
};

/// The status. Names come from tenants, so a reader must escape them.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    pub program: &'static str,
    pub version: &'static str,
    #[serde(flatten)]
    pub instance: Instance,
    /// The faults that need an administrator, derived from the other fields.
    #[serde(flatten)]
    pub problems: Problems,
    /// The conditions of readiness.
    pub conditions: Vec<Condition>,
    /// Objects that cannot be decoded, at most 100. Their last known state applies.
    pub bad_objects: Vec<BadObject>,
    #[serde(flatten)]
    pub snapshot: Snapshot,
}

/// The sources of the status, beside the writer.
#[derive(Clone, Debug, Default)]
pub struct StatusSources {
    pub instance: Instance,
    /// The conditions of readiness.
    pub health: Health,
    /// Objects that cannot be decoded.
    pub bad_objects: BadObjects,
}

impl Status {
    pub(super) fn new(snapshot: Snapshot, sources: &StatusSources) -> Self {
        let mut status = Self {
            program: PROGRAM,
            version: VERSION,
            instance: sources.instance.clone(),
            problems: Problems::default(),
            conditions: sources.health.conditions(),
            bad_objects: sources.bad_objects.list(),
            snapshot,
        };
        status.problems = status.find_problems();
        status
    }

    fn find_problems(&self) -> Problems {
        let mut problems = Problems::default();
        problems.extend(self.conditions.iter().filter_map(of_condition));
        problems.extend(self.bad_objects.iter().map(Problem::of_bad_object));
        problems.extend(self.snapshot.absent.iter().map(|absent| Problem {
            reason: "AbsentObjects",
            subject: "objects".to_owned(),
            words: absent.to_string(),
            docs: "troubleshooting.md#egressdnsobjectsabsent",
        }));
        problems.extend(self.snapshot.sets.iter().filter_map(of_set));
        problems.add_unlisted(self.snapshot.more_names);
        problems
    }
}

fn of_condition(condition: &Condition) -> Option<Problem> {
    let docs = match condition.name {
        "store" => "troubleshooting.md#egressdnsstoreunreadable",
        _ => "troubleshooting.md#egressdnsnorthboundoutofsync",
    };
    Problem::of_condition(condition, docs)
}

fn of_set(set: &SetShown) -> Option<Problem> {
    let trouble = set.trouble.as_ref().filter(|_| !set.is_being_written)?;
    Some(Problem {
        reason: "SetDiffers",
        subject: set.name.clone(),
        words: format!("{} set {}: {trouble}", set.family, set.set),
        docs: "troubleshooting.md#egressdnsnorthboundoutofsync",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{explain::Database, sync::Differences, verify::Absent};

    fn set(name: &str, difference: Option<&str>, is_being_written: bool) -> SetShown {
        SetShown {
            name: name.to_owned(),
            set: "a1".to_owned(),
            controller: String::new(),
            family: "v4",
            wanted: 1,
            present: Some(0),
            addresses: Vec::new(),
            rules: 0,
            namespaces: Vec::new(),
            more_namespaces: 0,
            trouble: difference.map(str::to_owned),
            is_being_written,
        }
    }

    fn snapshot(sets: Vec<SetShown>) -> Snapshot {
        Snapshot {
            idle: None,
            database: Database {
                remote: "unix:/run/nb.sock".to_owned(),
                is_connected: true,
                rows: Some(2),
                is_managed: false,
            },
            objects: 1,
            differences: Differences::default(),
            absent: None,
            names: 1,
            sets,
            more_names: 0,
        }
    }

    fn subjects(status: &Status) -> Vec<(&str, &str)> {
        let problems = status.problems.listed.iter();
        problems
            .map(|it| (it.reason, it.subject.as_str()))
            .collect()
    }

    #[test]
    fn a_difference_is_a_problem_unless_it_is_being_written() {
        let sets = vec![
            set("a.example.com.", Some("1 missing, 0 too many"), true),
            set("b.example.com.", Some("the row cannot be created"), false),
        ];
        let status = Status::new(snapshot(sets), &StatusSources::default());
        assert_eq!(subjects(&status), [("SetDiffers", "b.example.com.")]);
        let problem = &status.problems.listed[0];
        assert!(problem.words.contains("cannot be created"), "{problem:?}");
        let json = serde_json::to_value(&status).unwrap();
        assert_eq!(json["problems"][0]["subject"], "b.example.com.");
        assert_eq!(json["sets"][0]["isBeingWritten"], true);
        assert_eq!(json["database"]["isConnected"], true);
    }

    #[test]
    fn conditions_and_absent_objects_are_problems() {
        let sources = StatusSources::default();
        sources.health.gate("store", "the store cannot be read");
        sources.health.gate("northbound", "no").ready();
        let names = vec!["a.example.com.".to_owned()];
        let snapshot = Snapshot {
            absent: Some(Absent { names }),
            more_names: 3,
            ..snapshot(Vec::new())
        };
        let status = Status::new(snapshot, &sources);
        let expected = [("Condition", "store"), ("AbsentObjects", "objects")];
        assert_eq!(subjects(&status), expected);
        assert_eq!(status.problems.count(), 5);
    }
}
