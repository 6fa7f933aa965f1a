//! The answers of the running programs.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
};

use runtime::inspect::text::few;
use serde::Deserialize;
use serde_json::Value;

use super::{
    report::Topic,
    seen::{Seen, Unseen},
};
use crate::targets::{Answers, Kind, Targets};

/// The most things named in a line.
pub(crate) const MOST_NAMED: usize = 5;

/// The running programs, in a cluster or at local sockets.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    pub(crate) collectors: Vec<Said<CollectorStatus>>,
    pub(crate) writers: Vec<Said<WriterStatus>>,
    pub(crate) sets: Vec<Said<Sets>>,
    pub(crate) policy_writers: Vec<Said<PolicyWriterStatus>>,
}

/// The answer of a running program.
#[derive(Debug)]
pub(crate) struct Said<T> {
    /// The program and its place, such as `ovn-writer POD on node NODE`.
    pub(crate) program: String,
    pub(crate) answer: Seen<T>,
}

/// The parts of a collector's `/status.json`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CollectorStatus {
    pub(crate) version: String,
    pub(crate) leader: bool,
    pub(crate) dns_blocks: Vec<DnsBlock>,
    pub(crate) refused_dns_servers: Vec<RefusedDnsServer>,
    pub(crate) problems: Vec<Problem>,
    pub(crate) more_problems: usize,
    pub(crate) names: Vec<Value>,
}

/// A server block of a DNS server, and its stream to the collector.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DnsBlock {
    pub(crate) server: SocketAddr,
    pub(crate) name: String,
    pub(crate) state: String,
    pub(crate) reported_seconds: Option<f64>,
    pub(crate) delay_seconds: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct RefusedDnsServer {
    pub(crate) server: IpAddr,
    pub(crate) words: String,
}

/// An entry of `problems`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Problem {
    pub(crate) reason: String,
    pub(crate) subject: String,
    pub(crate) words: String,
    pub(crate) docs: String,
}

/// The parts of an ovn-writer's `/status.json`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct WriterStatus {
    pub(crate) version: String,
    /// Why it does not write.
    pub(crate) idle: Option<String>,
    pub(crate) database: Database,
    pub(crate) problems: Vec<Problem>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Database {
    pub(crate) remote: String,
    pub(crate) is_connected: bool,
}

/// The parts of an ovn-writer's `/verify.json`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Sets {
    pub(crate) is_same: bool,
    pub(crate) objects: usize,
    pub(crate) text: Vec<String>,
}

/// The parts of a policy-writer's `/status.json`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PolicyWriterStatus {
    pub(crate) leader: bool,
    pub(crate) totals: Totals,
    pub(crate) problems: Vec<Problem>,
    pub(crate) more_problems: usize,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Totals {
    pub(crate) resolvers: usize,
}

impl Programs {
    /// Asks all programs, each kind at once.
    pub(crate) async fn ask(targets: &Targets) -> Self {
        let (collectors, writers, sets, policy_writers) = tokio::join!(
            targets.ask(Kind::Collector, "/status.json"),
            targets.ask(Kind::OvnWriter, "/status.json"),
            targets.ask(Kind::OvnWriter, "/verify.json"),
            targets.ask(Kind::PolicyWriter, "/status.json"),
        );
        Self {
            collectors: said(collectors),
            writers: said(writers),
            sets: said(sets),
            policy_writers: said(policy_writers),
        }
    }

    /// The programs cannot be found.
    pub(crate) fn unseen(why: &Unseen) -> Self {
        Self {
            collectors: vec![Said::unseen("collectors", why)],
            writers: vec![Said::unseen("ovn-writers", why)],
            sets: vec![Said::unseen("ovn-writers", why)],
            policy_writers: vec![Said::unseen("policy-writers", why)],
        }
    }

    #[cfg(test)]
    pub(crate) fn of_collector(answer: Seen<CollectorStatus>) -> Self {
        let program = "collector a".to_owned();
        Self {
            collectors: vec![Said { program, answer }],
            ..Self::default()
        }
    }

    /// The collector that knows most: the leader, or another one.
    pub(crate) fn knowing(&self) -> Option<(&str, &CollectorStatus)> {
        let leading = answers(&self.collectors).find(|(_, status)| status.leader);
        leading.or_else(|| answers(&self.collectors).next())
    }
}

impl<T> Said<T> {
    fn unseen(program: &str, why: &Unseen) -> Self {
        Self {
            program: program.to_owned(),
            answer: Err(why.clone()),
        }
    }
}

fn said<T>(answers: Answers<'_, T>) -> Vec<Said<T>> {
    let answers = answers.into_iter().map(|(target, answer)| Said {
        program: target.to_string(),
        answer: answer.map_err(|error| Unseen(format!("{error:#}"))),
    });
    answers.collect()
}

pub(crate) const ASK: &str = "see its log; a port-forward needs the rights to get and create pods/portforward in its namespace";

/// One `?` for each program without an answer.
pub(crate) fn unanswered<T>(topic: &mut Topic, said: &[Said<T>]) {
    for Said { program, answer } in said {
        if let Err(unseen) = answer {
            topic.unknown(format!("no answer of the {program}: {}", unseen.0), ASK);
        }
    }
}

/// The programs that answered, with their places.
pub(crate) fn answers<T>(said: &[Said<T>]) -> impl Iterator<Item = (&str, &T)> {
    said.iter()
        .filter_map(|it| Some((it.program.as_str(), it.answer.as_ref().ok()?)))
}

/// Problems with the same words and the same page, with their subjects in a few words.
pub(crate) fn alike<'a>(
    problems: impl Iterator<Item = &'a Problem>,
) -> impl Iterator<Item = (&'a Problem, String)> {
    let mut alike: BTreeMap<(&str, &str), Vec<&Problem>> = BTreeMap::new();
    for problem in problems {
        let key = (problem.words.as_str(), problem.docs.as_str());
        alike.entry(key).or_default().push(problem);
    }
    alike.into_values().filter_map(|problems| {
        let subjects = few(problems.iter().map(|it| &it.subject), MOST_NAMED);
        Some((*problems.first()?, subjects))
    })
}

/// Faults of programs. Those that several programs have are one line.
#[derive(Debug, Default)]
pub(crate) struct Faults<'a>(BTreeMap<(String, String), Vec<&'a str>>);

impl<'a> Faults<'a> {
    pub(crate) fn add(&mut self, program: &'a str, seen: String, remedy: String) {
        self.0.entry((seen, remedy)).or_default().push(program);
    }

    /// Adds a problem that a program lists.
    pub(crate) fn add_problem(&mut self, program: &'a str, problem: &Problem) {
        let Problem {
            reason: _,
            subject,
            words,
            docs,
        } = problem;
        let seen = format!("{subject}: {words}");
        self.add(program, seen, format!("see docs/{docs}"));
    }

    pub(crate) fn tell(self, topic: &mut Topic) {
        for ((seen, remedy), programs) in self.0 {
            let programs = few(programs.iter(), MOST_NAMED);
            topic.fault(format!("{seen} (says the {programs})"), remedy);
        }
    }
}
