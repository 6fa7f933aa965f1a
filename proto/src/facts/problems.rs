//! Faults, each with a code for programs, a sentence for people, and a remedy.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most problems that are listed; further ones are counted.
const MOST: usize = 1_000;

/// How grave a problem is.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It works as written, or the state ends by itself in most cases.
    Warning,
    /// Something does not work.
    #[default]
    Fault,
}

/// A fault, or a state that needs an administrator.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Problem {
    /// How grave it is.
    pub severity: Severity,
    /// Its kind, for programs.
    pub code: String,
    /// The thing that has it: a condition, a server, an object or a name.
    pub subject: String,
    /// The fault.
    pub sentence: String,
    /// What to do.
    pub remedy: String,
}

impl Problem {
    /// A fault.
    pub fn fault(
        code: &str,
        subject: impl Into<String>,
        sentence: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            severity: Severity::Fault,
            code: code.to_owned(),
            subject: subject.into(),
            sentence: sentence.into(),
            remedy: remedy.into(),
        }
    }

    /// The same as a warning.
    #[must_use]
    pub fn warning(self) -> Self {
        Self {
            severity: Severity::Warning,
            ..self
        }
    }
}

/// The problems of a program.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Problems {
    /// At most 1,000 of them.
    #[serde(rename = "problems")]
    pub listed: Vec<Problem>,
    /// The number of others.
    #[serde(rename = "moreProblems")]
    pub more: usize,
}

impl Problems {
    /// Adds those of another list, also the ones that it only counts.
    pub fn append(&mut self, other: Self) {
        self.more += other.more;
        self.extend(other.listed);
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

/// A condition of readiness.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Condition {
    /// Its name.
    pub name: String,
    /// Whether it holds.
    pub holds: bool,
    /// Why it does not hold, or a warning although it does.
    pub reason: Option<String>,
}

/// Why something is not as expected.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Reason {
    /// Its kind, for programs.
    pub code: String,
    /// The reason.
    pub sentence: String,
}

impl Reason {
    /// A reason.
    pub fn new(code: impl Into<String>, sentence: impl Into<String>) -> Self {
        let (code, sentence) = (code.into(), sentence.into());
        Self { code, sentence }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_beyond_the_most_are_counted() {
        let problem = || Problem::fault("Code", "subject", "sentence", "remedy");
        let mut problems = Problems::default();
        problems.extend((0..MOST).map(|_| problem()));
        assert_eq!((problems.listed.len(), problems.more), (MOST, 0));
        let other = Problems {
            listed: vec![problem()],
            more: 2,
        };
        problems.append(other);
        assert_eq!((problems.listed.len(), problems.more), (MOST, 3));
    }
}
