//! The answers of the running programs.

use std::collections::BTreeMap;

use proto::{
    facts::{Problem, Program, Query, Severity, Status},
    text::few,
};

use super::{
    pods::LIST,
    report::Topic,
    seen::{Seen, Unseen},
};
use crate::{
    output::MOST_NAMED,
    targets::{Answers, Targets},
};

/// The running programs, in a cluster or at local sockets.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    pub(crate) collectors: Vec<Reported>,
    pub(crate) writers: Vec<Reported>,
    pub(crate) policy_writers: Vec<Reported>,
}

/// The answer of a running program.
#[derive(Debug)]
pub(crate) struct Reported {
    /// The program and its place, such as `ovn-writer POD on node NODE`.
    pub(crate) program: String,
    pub(crate) answer: Seen<Status>,
    /// What to do if it does not answer.
    pub(crate) remedy: &'static str,
}

impl Programs {
    /// Asks all programs, each kind at once.
    pub(crate) async fn ask(targets: &Targets) -> Self {
        let path = facts_alone();
        let (collectors, writers, policy_writers) = tokio::join!(
            targets.ask(Program::Collector, &path),
            targets.ask(Program::OvnWriter, &path),
            targets.ask(Program::PolicyWriter, &path),
        );
        Self {
            collectors: reported(collectors),
            writers: reported(writers),
            policy_writers: reported(policy_writers),
        }
    }

    /// Asks the collectors only.
    pub(crate) async fn ask_collectors(targets: &Targets) -> Self {
        Self {
            collectors: reported(targets.ask(Program::Collector, &facts_alone()).await),
            ..Self::default()
        }
    }

    /// The programs cannot be found.
    pub(crate) fn unseen(why: &Unseen) -> Self {
        Self {
            collectors: vec![Reported::unseen("collectors", why)],
            writers: vec![Reported::unseen("ovn-writers", why)],
            policy_writers: vec![Reported::unseen("policy-writers", why)],
        }
    }
}

/// The path of a status without names.
fn facts_alone() -> String {
    let query = Query {
        limit: 0,
        ..Query::all()
    };
    query.path()
}

impl Reported {
    fn unseen(program: &str, why: &Unseen) -> Self {
        Self {
            program: program.to_owned(),
            answer: Err(why.clone()),
            remedy: LIST,
        }
    }
}

fn reported(answers: Answers<'_, Status>) -> Vec<Reported> {
    let answers = answers.into_iter().map(|(target, answer)| Reported {
        program: target.to_string(),
        answer: answer.map_err(|error| Unseen(format!("{error:#}"))),
        remedy: target.pod().map_or(START, |_| FORWARD),
    });
    answers.collect()
}

/// The remedy of a program in a pod.
pub(crate) const FORWARD: &str = "see its log; a port-forward needs the rights to get and create pods/portforward in its namespace";

/// The remedy of a program at a local socket.
const START: &str = "start it, or see its log";

/// One `?` for each program without an answer.
pub(crate) fn unanswered(topic: &mut Topic, all: &[Reported]) {
    for it in all {
        if let Err(Unseen(why)) = &it.answer {
            topic.unknown(format!("no answer of the {}: {why}", it.program), it.remedy);
        }
    }
}

/// The programs that answered, with their places.
pub(crate) fn answers(all: &[Reported]) -> impl Iterator<Item = (&str, &Status)> {
    all.iter()
        .filter_map(|it| Some((it.program.as_str(), it.answer.as_ref().ok()?)))
}

/// The problems that the programs list, of the codes that count.
pub(crate) fn problems(
    all: &[Reported],
    counts: impl Fn(&str) -> bool,
) -> impl Iterator<Item = (&str, &Problem)> {
    let listed = answers(all).flat_map(|(program, status)| {
        let listed = status.problems.listed.iter();
        listed.map(move |it| (program, it))
    });
    listed.filter(move |(_, it)| counts(&it.code))
}

/// The program that knows most: the leader, or another one.
pub(crate) fn knowing(all: &[Reported]) -> Option<(&str, &Status)> {
    let leading = answers(all).find(|(_, status)| status.head.leader);
    leading.or_else(|| answers(all).next())
}

/// Adds problems. Those with the same words are one line, which names the programs and a few of the subjects.
pub(crate) fn tell<'a>(topic: &mut Topic, problems: impl Iterator<Item = (&'a str, &'a Problem)>) {
    type Alike<'a> = BTreeMap<&'a str, Vec<&'a str>>;
    let mut alike: BTreeMap<(Severity, &str, &str), Alike<'_>> = BTreeMap::new();
    for (program, problem) in problems {
        let key = (problem.severity, &*problem.sentence, &*problem.remedy);
        let subjects = alike.entry(key).or_default();
        subjects.entry(&*problem.subject).or_default().push(program);
    }
    for ((severity, sentence, remedy), subjects) in alike.into_iter().rev() {
        let mut programs: Vec<&str> = subjects.values().flatten().copied().collect();
        programs.sort_unstable();
        programs.dedup();
        let subjects = few(subjects.keys(), MOST_NAMED);
        let programs = few(programs.iter(), MOST_NAMED);
        let seen = format!("{subjects}: {sentence} (says the {programs})");
        match severity {
            Severity::Fault => topic.fault(seen, remedy),
            Severity::Warning => topic.warn(seen, remedy),
        }
    }
}
