//! Answers of several programs: of ovn-writers, with nodes together that say the same, and of replicas, of which one leads.

use runtime::inspect::text::{few, printable};
use serde::Serialize;
use serde_json::Value;

use crate::targets::Target;

/// Fields that differ between nodes although they say the same: times, row numbers, and the text made of them.
const OF_A_NODE: [&str; 5] = ["millisAgo", "secondsAgo", "sinceSeconds", "text", "uuid"];

/// The most nodes named in a line.
const MOST_NAMED: usize = 5;

/// Nodes with the same answer.
#[derive(Serialize)]
pub(crate) struct Group {
    /// Where the programs are, at least one.
    pub(crate) nodes: Vec<String>,
    /// The answer of the first.
    pub(crate) answer: Value,
}

/// Puts targets together whose answers differ in no more than times.
pub(crate) fn groups(answers: Vec<(&Target, Value)>) -> Vec<Group> {
    let mut groups: Vec<(Value, Group)> = Vec::new();
    for (target, answer) in answers {
        let mut essence = answer.clone();
        strip(&mut essence);
        match groups.iter_mut().find(|(known, _)| *known == essence) {
            Some((_, group)) => group.nodes.push(target.place.clone()),
            None => {
                let nodes = vec![target.place.clone()];
                groups.push((essence, Group { nodes, answer }));
            }
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

impl Group {
    /// The nodes in a few words.
    pub(crate) fn named(&self) -> String {
        printable(&few(self.nodes.iter(), MOST_NAMED))
    }

    /// The lines of its text.
    pub(crate) fn text(&self) -> impl Iterator<Item = String> {
        text_of(&self.answer)
    }
}

/// A field of an answer; null if there is none.
pub(crate) fn field<'a>(answer: &'a Value, name: &str) -> &'a Value {
    answer.get(name).unwrap_or(&Value::Null)
}

/// The items of a list in an answer.
pub(crate) fn items<'a>(answer: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    field(answer, name).as_array().into_iter().flatten()
}

/// The answer of the program that leads, or else the first one.
pub(crate) fn leading<T>(
    answers: Vec<(&Target, T)>,
    leads: impl Fn(&T) -> bool,
) -> Option<(&Target, T)> {
    let leading = answers.iter().position(|(_, answer)| leads(answer));
    answers.into_iter().nth(leading.unwrap_or(0))
}

/// Whether the program of an answer leads.
pub(crate) fn leads(answer: &Value) -> bool {
    field(answer, "leader") == true
}

/// The answer of the policy-writer that leads, or else of another one.
#[derive(Serialize)]
#[serde(transparent)]
pub(crate) struct OfPolicyWriter {
    #[serde(skip)]
    pub(crate) place: String,
    pub(crate) answer: Value,
}

impl OfPolicyWriter {
    pub(crate) fn of(answers: Vec<(&Target, Value)>) -> Option<Self> {
        let (target, answer) = leading(answers, leads)?;
        let place = target.place.clone();
        Some(Self { place, answer })
    }

    /// The lines of its text, below its place.
    pub(crate) fn lines(&self, before: &str) -> impl Iterator<Item = String> {
        let head = format!("{before}policy-writer {}:", printable(&self.place));
        std::iter::once(head).chain(text_of(&self.answer).map(|line| format!("  {line}")))
    }
}

/// The lines of an answer, which may come from another program than expected.
pub(crate) fn text_of(answer: &Value) -> impl Iterator<Item = String> {
    let lines = items(answer, "text");
    lines.filter_map(Value::as_str).map(printable)
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::targets::{Kind, Target};

    #[test]
    fn nodes_with_the_same_rows_in_another_order_are_one_group() {
        let targets = ["a", "b"].map(|it| Target::test(Kind::OvnWriter, it));
        let row = |name: &str, uuid: u64| json!({"name": name, "uuid": uuid});
        let said = [
            json!({"rows": [row("x", 1), row("y", 2)]}),
            json!({"rows": [row("y", 3), row("x", 4)]}),
        ];
        assert_eq!(groups(targets.iter().zip(said).collect()).len(), 1);
    }

    #[test]
    fn nodes_that_differ_in_times_alone_are_one_group() {
        let targets = ["a", "b", "c"].map(|it| Target::test(Kind::OvnWriter, it));
        let said = |seconds: u64, there: bool| json!({"isThere": there, "names": [{"rows": [{"uuid": seconds, "sinceSeconds": seconds}]}], "text": [seconds]});
        let answers = targets
            .iter()
            .zip([said(1, true), said(2, false), said(3, true)]);
        let groups = groups(answers.collect());
        let places: Vec<String> = groups.iter().map(Group::named).collect();
        assert_eq!(places, ["a, c", "b"]);
    }
}
