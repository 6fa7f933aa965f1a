//! The status of all names, and the requests of other tasks for it.

use proto::{
    api::DnsName,
    facts::{
        CapFacts, CollectorFacts, FailingName, Problem, Problems, Query, Subject, SubjectFacts,
    },
};
use runtime::{clock::Timestamp, store::ObjectKey};
use tokio::sync::oneshot;

use super::publisher::Publisher;
use crate::rules::is_policy;
use names::{Entry, NamespaceAtCap, Namespaces, NoAddress, failing_names};

/// After so many failed look-ups in a row a name with addresses is at fault. Fewer are a restart of a DNS server.
const LOOKUPS_FAIL: i32 = 5;

/// The most failing names listed for each name in use.
pub(crate) const MAX_FAILING: usize = 10;

/// The most namespaces at a cap, and the most names without a rule, that are listed.
const MOST: usize = 1_000;

const LIMITS: &str = "see docs/limits.md#a-namespace-over-its-limits";
const FULL: &str = "see docs/troubleshooting.md#egressdnslimitnear";
const NO_ADDRESS: &str =
    "see `egress explain NAME` and docs/troubleshooting.md#egressdnsnamewithoutaddresses";

/// A request, with the channel for the answer.
#[derive(Debug)]
pub enum InspectRequest {
    /// The status.
    Status(Box<Query>, oneshot::Sender<NamesStatus>),
    /// The details of one subject, and whether this replica leads.
    Facts(Subject, oneshot::Sender<(SubjectFacts, bool)>),
}

/// The publisher's part of the status.
#[derive(Debug)]
pub struct NamesStatus {
    /// Whether this replica looks names up, removes addresses, and creates and deletes objects.
    pub leader: bool,
    /// Names in trouble, and namespaces at a cap.
    pub problems: Problems,
    /// What is known of names.
    pub facts: CollectorFacts,
}

impl InspectRequest {
    /// Answers the request. The receiver may be gone.
    pub(crate) fn answer(self, publisher: &Publisher, now: Timestamp) {
        match self {
            Self::Status(query, sender) => {
                let _gone = sender.send(publisher.status(&query, now));
            }
            Self::Facts(subject, sender) => {
                let leader = publisher.names.leads();
                let _gone = sender.send((publisher.facts(&subject, now), leader));
            }
        }
    }
}

pub(super) fn cap_facts(at_cap: &NamespaceAtCap, namespaces: &Namespaces) -> CapFacts {
    CapFacts {
        namespace: namespaces.name(at_cap.namespace).to_string(),
        names_left_out: at_cap.names_left_out,
        addresses: at_cap.addresses,
    }
}

impl Publisher {
    /// The status, with a page of the names.
    pub fn status(&self, query: &Query, now: Timestamp) -> NamesStatus {
        let at_cap = self.names.at_cap();
        let at_cap = at_cap.map(|it| cap_facts(&it, &self.namespaces));
        let namespaces_at_cap: Vec<_> = at_cap.take(MOST).collect();
        let mut problems = Problems::default();
        problems.extend(namespaces_at_cap.iter().map(of_namespace));
        let (mut troubled, mut without_rule) = (Vec::new(), Vec::new());
        for (name, entry) in self.names.iter() {
            let found = self.problems_of(name, entry);
            if !found.is_empty() {
                troubled.push((name, found));
            }
            if !entry.is_used()
                && self
                    .by_name
                    .get(name)
                    .is_some_and(|it| !it.objects.is_empty())
            {
                without_rule.push(name);
            }
        }
        troubled.sort_unstable_by_key(|(name, _)| *name);
        problems.extend(troubled.into_iter().flat_map(|(_, found)| found));
        without_rule.sort_unstable();
        let (names, next) = self.page(query, now);
        NamesStatus {
            leader: self.names.leads(),
            problems,
            facts: CollectorFacts {
                lookups: self.names.limits().lookups,
                scheduled_lookups: self.names.scheduled(),
                name_count: self.names.len(),
                namespaces_at_cap,
                names_without_rule: without_rule.into_iter().take(MOST).cloned().collect(),
                names,
                next,
                ..CollectorFacts::default()
            },
        }
    }

    /// Why an administrator should look at a name. A wildcard without addresses is no fault: no pod asked for a name under
    /// it.
    fn problems_of(&self, name: &DnsName, entry: &Entry) -> Vec<Problem> {
        let mut problems = Vec::new();
        let problem = |code: &str, sentence: String, remedy: &str| {
            Problem::fault(code, name.as_str(), sentence, remedy)
        };
        let of_name = self.by_name.get(name);
        let (used, evicted) = (entry.is_used(), entry.evicted());
        if used && entry.rule_use().denied && evicted.addresses > 0 {
            let sentence = "its object is full: the latest addresses were left out, and traffic to them is not blocked";
            problems.push(problem("Full", sentence.to_owned(), FULL));
        } else if evicted.addresses > 0 {
            let sentence = format!("{} addresses were left out at a cap", evicted.addresses);
            problems.push(problem("Evicted", sentence, FULL));
        }
        if evicted.names > 0 {
            let sentence = format!("{} names under it were left out at a cap", evicted.names);
            problems.push(problem("Evicted", sentence, FULL));
        }
        let why = self.no_address(name, entry);
        let why = why.filter(|it| used && it.code != "NotLeader" && it.code != "NotAsked");
        match &why {
            Some(why) if why.code == "LimitExceeded" => {
                problems.push(problem(&why.code, why.sentence.clone(), LIMITS));
            }
            Some(why) => problems.push(problem(
                "NoAddress",
                format!("no address: {}", why.sentence),
                NO_ADDRESS,
            )),
            None => {
                if let Some(NoAddress::Guarded(guard)) = entry.no_address().filter(|_| used) {
                    let sentence = format!(
                        "the guard `{guard}` refuses its latest answer, and its earlier addresses stay"
                    );
                    problems.push(problem("Guarded", sentence, NO_ADDRESS).warning());
                }
                let mut failing = failing_names(entry.state());
                for failure in failing.by_ref().take(MAX_FAILING) {
                    let fails = problem("LookupFails", failing_sentence(&failure), NO_ADDRESS);
                    problems.push(match failure.failures < LOOKUPS_FAIL {
                        true => fails.warning(),
                        false => fails,
                    });
                }
                let more = failing.count();
                if more > 0 {
                    let sentence = format!("{more} more names cannot be looked up");
                    problems.push(problem("LookupFails", sentence, NO_ADDRESS));
                }
            }
        }
        let failures = of_name.map_or(0, |it| it.failures);
        if failures > 0 {
            let remedy = "see docs/troubleshooting.md#egressdnsstatuseslate";
            problems.push(problem(
                "NotWritten",
                format!("{failures} writes failed"),
                remedy,
            ));
        }
        let objects = of_name.map_or(&[][..], |it| &it.objects);
        let keys = || objects.iter().map(|it| it.key(self.objects.policy()));
        if objects.is_empty() && problems.is_empty() {
            problems.push(problem("NoObject", "no object".to_owned(), NO_ADDRESS));
        } else if objects.len() > 1 && are_several_of_one_source(&keys().collect::<Vec<_>>()) {
            let remedy = "delete the object that another program left behind";
            let sentence = "several objects".to_owned();
            problems.push(problem("SeveralObjects", sentence, remedy));
        }
        if why.is_some_and(|it| matches!(&*it.code, "NoLookups" | "NotLookedUp")) {
            // A pod has to ask for it, or it is looked up within seconds.
            problems = problems.into_iter().map(Problem::warning).collect();
        }
        problems
    }
}

fn of_namespace(at_cap: &CapFacts) -> Problem {
    let subject = match is_policy(&at_cap.namespace) {
        true => at_cap.namespace.clone(),
        false => format!("namespace {}", at_cap.namespace),
    };
    let sentence = format!(
        "it is at a cap: it has {} addresses of names, and {} names are left out",
        at_cap.addresses, at_cap.names_left_out
    );
    Problem::fault("NamespaceAtCap", subject, sentence, LIMITS)
}

fn failing_sentence(failure: &FailingName) -> String {
    let reason = failure.reason.as_deref().unwrap_or("failed before");
    format!(
        "{}: {reason}, {} look-ups failed",
        failure.name, failure.failures
    )
}

/// Whether two objects are in one namespace. A name of two sources has an object for each, and
/// kube-OVN makes one for each policy, in no namespace.
fn are_several_of_one_source(objects: &[ObjectKey]) -> bool {
    let namespaces = objects.iter().map(|key| &key.namespace);
    let mut namespaces: Vec<_> = namespaces.filter(|it| !it.is_empty()).collect();
    let count = namespaces.len();
    namespaces.sort_unstable();
    namespaces.dedup();
    namespaces.len() < count
}
