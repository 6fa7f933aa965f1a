//! Names in trouble, and the limits of namespaces and names.

use super::{
    programs::{ASK, Problem, Programs, alike},
    report::{Finding, Topic, counted},
};

/// The reasons of problems about limits.
const LIMITS: [&str; 5] = [
    "NamespaceOverLimit",
    "LeftOut",
    "Full",
    "Evicted",
    "NotWritten",
];

/// The reasons of problems that the topic of dnstap streams tells.
const TOLD: [&str; 2] = ["DnsServerSendsNoDnstap", "DnsServerForwardsProbes"];

pub(crate) fn names(programs: &Programs) -> Vec<Finding> {
    let is_of = |reason: &str| !LIMITS.contains(&reason) && !TOLD.contains(&reason);
    problems("Rules and names", programs, is_of, |names| {
        format!("{}, none in trouble", counted(names, "name"))
    })
}

pub(crate) fn limits(programs: &Programs) -> Vec<Finding> {
    let is_of = |reason: &str| LIMITS.contains(&reason);
    problems("Limits", programs, is_of, |_| {
        "no namespace and no name is over its limits".to_owned()
    })
}

fn problems(
    name: &'static str,
    programs: &Programs,
    is_of: impl Fn(&str) -> bool,
    ok: impl FnOnce(usize) -> String,
) -> Vec<Finding> {
    let mut topic = Topic::new(name);
    let Some((program, status)) = programs.knowing() else {
        topic.unknown("no collector answers", ASK);
        return topic.into();
    };
    let all = status.problems.iter();
    for (Problem { words, docs, .. }, subjects) in alike(all.filter(|it| is_of(&it.reason))) {
        let seen = format!("{subjects}: {words} (says the {program})");
        topic.fault(seen, format!("see docs/{docs}"));
    }
    if status.more_problems > 0 {
        topic.unknown(
            format!("the {program} has {} more problems", status.more_problems),
            "see its status page",
        );
    }
    topic.or_ok(|| ok(status.names.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{programs::CollectorStatus, report::Report};

    #[test]
    fn many_names_with_the_same_problem_are_one_line() {
        let problem = |number| Problem {
            reason: "NoAddress".to_owned(),
            subject: format!("n{number}.test."),
            words: "no address yet".to_owned(),
            ..Problem::default()
        };
        let programs = Programs::of_collector(Ok(CollectorStatus {
            problems: (0..1000).map(problem).collect(),
            ..CollectorStatus::default()
        }));
        let text = Report::new(names(&programs)).text();
        let line = "n3.test., n4.test. and 995 more: no address yet";
        assert!(text.contains(line) && text.contains("1 fault."), "{text}");
    }

    #[test]
    fn each_problem_is_told_by_one_topic() {
        let problem = |reason: &str| Problem {
            reason: reason.to_owned(),
            subject: reason.to_owned(),
            ..Problem::default()
        };
        // The Corefile may be that of a NodeLocal DNSCache, which no other topic reads.
        let reasons = ["Corefile", "NoAddress", "Full", "DnsServerSendsNoDnstap"];
        let programs = Programs::of_collector(Ok(CollectorStatus {
            problems: reasons.map(problem).to_vec(),
            ..CollectorStatus::default()
        }));
        let told = |findings| {
            let text = Report::new(findings).text();
            reasons.map(|reason| text.contains(reason))
        };
        assert_eq!(told(names(&programs)), [true, true, false, false]);
        assert_eq!(told(limits(&programs)), [false, false, true, false]);
    }
}
