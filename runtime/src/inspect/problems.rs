//! The faults that need an administrator: a list in `/status.json`.

use serde::Serialize;

use crate::{admin::Condition, store::BadObject};

/// The most problems that are listed; further ones are counted.
const MOST: usize = 1_000;

/// A fault, or a state that needs an administrator.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Problem {
    /// Its kind, for programs.
    pub reason: &'static str,
    /// The thing that has it: a condition, a server, an object or a name.
    pub subject: String,
    /// The fault, and the remedy if it is short, as a sentence.
    pub words: String,
    /// The section of the documentation, such as `troubleshooting.md#egressdnsblind`.
    pub docs: &'static str,
}

/// The problems of a program, the gravest first.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Problems {
    /// At most 1,000 of them.
    #[serde(rename = "problems")]
    pub listed: Vec<Problem>,
    /// The number of others.
    #[serde(rename = "moreProblems")]
    pub more: usize,
}

impl Problem {
    /// A condition of readiness that does not hold.
    pub fn of_condition(condition: &Condition, docs: &'static str) -> Option<Self> {
        Some(Self {
            reason: "Condition",
            subject: condition.name.to_owned(),
            words: condition.reason.clone()?,
            docs,
        })
    }

    /// An object of the store that has a fault.
    pub fn of_bad_object(bad: &BadObject) -> Self {
        Self {
            reason: "ObjectFault",
            subject: format!("{} {}", bad.kind, bad.place),
            words: bad.fault.clone(),
            docs: "troubleshooting.md#egressdnsstoreunreadable",
        }
    }
}

impl Problems {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.listed.len() + self.more
    }

    /// Counts problems that are not listed.
    pub fn add_unlisted(&mut self, count: usize) {
        self.more += count;
    }
}

impl Extend<Problem> for Problems {
    fn extend<T: IntoIterator<Item = Problem>>(&mut self, problems: T) {
        for problem in problems {
            if self.listed.len() < MOST {
                self.listed.push(problem);
            } else {
                self.more += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_beyond_the_limit_are_counted() {
        let problem = |index: usize| Problem {
            reason: "Empty",
            subject: index.to_string(),
            words: String::new(),
            docs: "",
        };
        let mut problems = Problems::default();
        problems.extend((0..MOST + 3).map(problem));
        problems.add_unlisted(2);
        assert_eq!((problems.listed.len(), problems.more), (MOST, 5));
        assert_eq!(problems.count(), MOST + 5);
        let json = serde_json::to_value(&problems).unwrap();
        assert_eq!(json["moreProblems"], 5);
        assert_eq!(json["problems"][7]["subject"], "7");
    }
}
