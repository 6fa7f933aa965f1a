//! The findings of a check, as lines and as JSON.

use proto::text::printable;
use runtime::UsageError;
use serde::Serialize;

use super::seen::Unseen;

/// The cure where the API server fails.
pub(crate) const SERVER_FAILS: &str =
    "see the API server's log, and whether etcd answers: kubectl get --raw '/readyz?verbose'";

/// The result of looking at one thing.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mark {
    Ok,
    /// It works, and an administrator should know of it.
    Warning,
    /// It could not be seen.
    Unknown,
    Fault,
}

impl Mark {
    const fn symbol(self) -> char {
        match self {
            Self::Ok => '✓',
            Self::Warning => '!',
            Self::Unknown => '?',
            Self::Fault => '✗',
        }
    }
}

/// One line of a check.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Finding {
    /// The part of the chain.
    pub(crate) check: &'static str,
    pub(crate) result: Mark,
    pub(crate) seen: String,
    /// The cure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) remedy: Option<String>,
}

/// The findings about one part of the chain.
#[derive(Debug)]
pub(crate) struct Topic {
    check: &'static str,
    findings: Vec<Finding>,
}

impl Topic {
    pub(crate) fn new(check: &'static str) -> Self {
        Self {
            check,
            findings: Vec::new(),
        }
    }

    fn add(&mut self, result: Mark, seen: impl Into<String>, remedy: Option<String>) {
        self.findings.push(Finding {
            check: self.check,
            result,
            seen: seen.into(),
            remedy,
        });
    }

    pub(crate) fn ok(&mut self, seen: impl Into<String>) {
        self.add(Mark::Ok, seen, None);
    }

    pub(crate) fn warn(&mut self, seen: impl Into<String>, remedy: impl Into<String>) {
        self.add(Mark::Warning, seen, Some(remedy.into()));
    }

    pub(crate) fn fault(&mut self, seen: impl Into<String>, remedy: impl Into<String>) {
        self.add(Mark::Fault, seen, Some(remedy.into()));
    }

    pub(crate) fn unknown(&mut self, seen: impl Into<String>, remedy: impl Into<String>) {
        let (seen, mut remedy) = (seen.into(), remedy.into());
        if Unseen::is_failure(&seen) {
            SERVER_FAILS.clone_into(&mut remedy);
        }
        self.add(Mark::Unknown, seen, Some(remedy));
    }

    /// The findings; if there are none, that all is well.
    pub(crate) fn or_ok(mut self, seen: impl FnOnce() -> String) -> Vec<Finding> {
        if self.findings.is_empty() {
            self.ok(seen());
        }
        self.findings
    }
}

impl From<Topic> for Vec<Finding> {
    fn from(topic: Topic) -> Self {
        topic.findings
    }
}

/// A whole check.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    /// The gravest of the results.
    pub(crate) result: Mark,
    pub(crate) findings: Vec<Finding>,
}

impl Report {
    pub(crate) fn new(findings: Vec<Finding>) -> Self {
        let gravest = findings.iter().map(|finding| finding.result).max();
        Self {
            result: gravest.unwrap_or(Mark::Unknown),
            findings,
        }
    }

    pub(crate) fn text(&self) -> String {
        let mut lines = Vec::new();
        for finding in &self.findings {
            let symbol = finding.result.symbol();
            let seen = printable(&finding.seen);
            lines.push(format!("{symbol} {}: {seen}", finding.check));
            let remedy = finding.remedy.iter();
            lines.extend(remedy.map(|remedy| format!("    {}", printable(remedy))));
        }
        let count = |mark| {
            let all = self.findings.iter();
            all.filter(|finding| finding.result == mark).count()
        };
        let (faults, warnings) = (count(Mark::Fault), count(Mark::Warning));
        let unknown = count(Mark::Unknown);
        let counts = [
            (faults, counted(faults, "fault")),
            (unknown, format!("{unknown} unknown")),
            (warnings, counted(warnings, "warning")),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let counts: Vec<String> = counts.map(|(_, words)| words).collect();
        lines.push(match self.result {
            Mark::Ok => "All is well.".to_owned(),
            _ => format!("{}.", counts.join(", ")),
        });
        lines.join("\n")
    }

    /// Whether there is no fault.
    ///
    /// # Errors
    /// [`UsageError`]: there is none, and something could not be seen.
    pub(crate) fn outcome(&self) -> Result<bool, UsageError> {
        match self.result {
            Mark::Ok | Mark::Warning => Ok(true),
            Mark::Fault => Ok(false),
            Mark::Unknown => Err(UsageError(
                "unknown: something could not be seen".to_owned(),
            )),
        }
    }
}

/// A number of things: `1 fault`, `2 faults`.
pub(crate) fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_outweighs_the_unseen_which_outweighs_a_warning() {
        let mut topic = Topic::new("Lease");
        let results = |topic: &Topic| Report::new(topic.findings.clone()).result;
        assert_eq!(results(&topic), Mark::Unknown);
        topic.ok("held");
        assert_eq!(results(&topic), Mark::Ok);
        topic.warn("late", "wait");
        assert_eq!(results(&topic), Mark::Warning);
        topic.unknown("no right", "ask for it");
        assert_eq!(results(&topic), Mark::Unknown);
        topic.fault("no\u{1b}leader", "start one");
        let report = Report::new(topic.into());
        assert_eq!(report.result, Mark::Fault);
        let expected = "✓ Lease: held\n! Lease: late\n    wait\n? Lease: no right\n    ask for it\n\
                        ✗ Lease: no\\u{1b}leader\n    start one\n1 fault, 1 unknown, 1 warning.";
        assert_eq!(report.text(), expected);
    }
}
