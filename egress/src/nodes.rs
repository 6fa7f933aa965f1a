//! Answers of several programs: of ovn-writers, with nodes together that say the same, and of replicas, of which one leads.

use proto::{
    facts::{Answer, Program, Query, Status},
    text::{few, printable},
};
use runtime::UsageError;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    output::MOST_NAMED,
    targets::{Target, Targets, Unreachable},
};

/// Fields that differ between nodes although they say the same: times and row numbers.
const OF_A_NODE: [&str; 2] = ["sinceSeconds", "uuid"];

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

/// The answers of the writers to one question.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Writers<S, P> {
    pub(crate) ovn_writers: Vec<Group<S>>,
    /// That of the one that leads, or else of another one.
    pub(crate) policy_writer: Option<OfPolicyWriter<P>>,
    /// Further programs may be added.
    pub(crate) unreachable: Vec<Unreachable>,
}

/// The answer of a policy-writer.
#[derive(Serialize)]
pub(crate) struct OfPolicyWriter<P> {
    #[serde(skip)]
    pub(crate) place: String,
    /// Whether it leads.
    pub(crate) leader: bool,
    #[serde(flatten)]
    pub(crate) answer: P,
}

impl<S: Serialize, P> Writers<S, P> {
    /// Asks all writers. `parts` are what an ovn-writer, and what a policy-writer answers.
    ///
    /// # Errors
    /// An answer has no JSON form.
    pub(crate) async fn ask<A: Answer + DeserializeOwned>(
        targets: &Targets,
        path: &str,
        parts: impl Fn(A) -> (Option<S>, Option<P>),
    ) -> serde_json::Result<Self> {
        let (ovn_writers, policy_writers) = tokio::join!(
            targets.ask::<A>(Program::OvnWriter, path),
            targets.ask::<A>(Program::PolicyWriter, path),
        );
        let (ovn_writers, mut unreachable) = Unreachable::split(ovn_writers);
        let (policy_writers, more) = Unreachable::split(policy_writers);
        unreachable.extend(more);
        let sets = ovn_writers.into_iter();
        let sets = sets.filter_map(|(target, it)| Some((target, parts(it).0?)));
        let policy_writer = leading(policy_writers).and_then(|(target, it)| {
            Some(OfPolicyWriter {
                place: target.place.clone(),
                leader: it.head().leader,
                answer: parts(it).1?,
            })
        });
        Ok(Self {
            ovn_writers: groups(sets.collect())?,
            policy_writer,
            unreachable,
        })
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
