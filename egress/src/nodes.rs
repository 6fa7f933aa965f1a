//! Answers of several programs: of ovn-writers, with nodes together that say the same, and of replicas, of which one leads.

use proto::{
    facts::{Answer, Program, Query, Status},
    text::{few, printable},
};
use runtime::UsageError;
use serde::Serialize;
use serde_json::Value;

use crate::targets::{Target, Targets, Unreachable};

/// Fields that differ between nodes although they say the same: times and row numbers.
const OF_A_NODE: [&str; 2] = ["sinceSeconds", "uuid"];

/// The most nodes named in a line.
const MOST_NAMED: usize = 5;

/// Nodes with the same answer.
#[derive(Serialize)]
pub(crate) struct Group<T> {
    /// Where the programs are, at least one.
    pub(crate) nodes: Vec<String>,
    /// The answer of the first.
    pub(crate) answer: T,
}

/// Puts targets together whose answers differ in no more than times.
///
/// # Errors
/// An answer has no JSON form.
pub(crate) fn groups<T: Serialize>(
    answers: Vec<(&Target, T)>,
) -> serde_json::Result<Vec<Group<T>>> {
    let mut groups: Vec<(Value, Group<T>)> = Vec::new();
    for (target, answer) in answers {
        let mut essence = serde_json::to_value(&answer)?;
        strip(&mut essence);
        match groups.iter_mut().find(|(known, _)| *known == essence) {
            Some((_, group)) => group.nodes.push(target.place.clone()),
            None => {
                let nodes = vec![target.place.clone()];
                groups.push((essence, Group { nodes, answer }));
            }
        }
    }
    Ok(groups.into_iter().map(|(_, group)| group).collect())
}

impl<T> Group<T> {
    /// The nodes in a few words.
    pub(crate) fn named(&self) -> String {
        printable(&few(self.nodes.iter(), MOST_NAMED))
    }
}

/// The answer of the program that leads, or else the first one.
pub(crate) fn leading<T: Answer>(answers: Vec<(&Target, T)>) -> Option<(&Target, T)> {
    let mut all = answers.iter();
    let leading = all.position(|(_, answer)| answer.head().leader);
    answers.into_iter().nth(leading.unwrap_or(0))
}

/// The status of the collector that leads, or else of another one, and the collectors that do not answer.
///
/// # Errors
/// [`UsageError`]: no collector answers.
pub(crate) async fn leading_collector<'a>(
    targets: &'a Targets,
    query: &Query,
) -> Result<(&'a Target, Status, Vec<Unreachable>), UsageError> {
    let answers = targets
        .ask::<Status>(Program::Collector, &query.path())
        .await;
    let (answers, unreachable) = Unreachable::split(answers);
    match leading(answers) {
        Some((target, status)) => Ok((target, status, unreachable)),
        None => {
            let reasons: Vec<String> = unreachable.iter().map(ToString::to_string).collect();
            let error = format!("no collector answers: {}", reasons.join("; "));
            Err(UsageError(error))
        }
    }
}

/// Lines with two spaces before each.
pub(crate) fn indented(text: &str) -> impl Iterator<Item = String> {
    text.lines().map(|line| format!("  {}", printable(line)))
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for field in OF_A_NODE {
                fields.remove(field);
            }
            fields.values_mut().for_each(strip);
        }
        Value::Array(values) => {
            values.iter_mut().for_each(strip);
            // Rows are in the order of their uuids, which differ.
            values.sort_by_cached_key(Value::to_string);
        }
        _ => {}
    }
}
