//! `/explain.json`: why an address is there, or is not.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use proto::api::DnsName;
use runtime::{
    inspect::{Asked, Subject, explain},
    store::ObjectKey,
};
use tokio::{sync::oneshot, time::timeout};

use crate::facts::{ANSWER_DEADLINE, InspectSources, Inspector, PROGRAM};
use crate::{
    facts::explained::{Explanation, KnownFacts, near_misses},
    publish::InspectRequest,
    rules::{BySource, Overview, Source, UsesAsked, validation::Fault},
};

/// The most objects of a kind in an explanation.
const MOST: usize = 10;

pub(super) async fn in_json(
    State(inspector): State<Arc<Inspector>>,
    RawQuery(query): RawQuery,
) -> Response {
    let explain = |asked| async move { inspector.explain(&asked).await };
    explain::in_json(PROGRAM, query.as_deref(), explain).await
}

impl Inspector {
    /// `None` if a task does not answer.
    pub(super) async fn explain(&self, asked: &Asked) -> Option<Explanation> {
        let known = async {
            let known = self.sources.known(asked);
            match asked.subject {
                // Explaining an address searches all names, so only one such request runs at a
                // time.
                Ok(Subject::Address(_)) => self.pacer.ask(known).await,
                _ => known.await,
            }
        };
        let known = timeout(ANSWER_DEADLINE, known).await.ok().flatten()?;
        Some(Explanation::new(asked, &known, &self.sources.peers))
    }
}

impl InspectSources {
    async fn known(&self, asked: &Asked) -> Option<KnownFacts> {
        let overview = self.rules.overview.borrow().clone();
        let out_of_sync = overview.out_of_sync();
        let unreadable = overview.iter().flat_map(|(source, it)| {
            let keys = it.undecodable.iter().take(MOST);
            keys.map(move |key| (source, key.clone()))
        });
        let namespace = asked.namespace.as_deref();
        let mut known = KnownFacts {
            at: self.clock.now(),
            left_out: left_out(&overview, namespace).take(MOST).collect(),
            out_of_sync: out_of_sync.map(|(of, why)| (of, why.to_owned())).collect(),
            unreadable: unreadable.collect(),
            ..KnownFacts::default()
        };
        let subject = match &asked.subject {
            Ok(subject) => subject,
            Err((text, _)) => {
                known.refused_rules = refused(&overview, text, namespace);
                return Some(known);
            }
        };
        let (sender, told) = oneshot::channel();
        let question = InspectRequest::Facts(subject.clone(), sender);
        self.controller.send(question).await.ok()?;
        let facts = told.await.ok()?;
        let mut names: Vec<DnsName> = facts.names.iter().map(|it| it.name.clone()).collect();
        match subject {
            Subject::Name(name) => {
                names.extend(near_misses(asked));
                names.extend([Some(name.clone()), name.wildcard()].into_iter().flatten());
                names.sort_unstable();
                names.dedup();
                let is_known = |name: &DnsName| facts.names.iter().any(|it| it.name == *name);
                // The rules are searched for each name, so only names in some rule are kept.
                let wanted = self.rules.wanted.borrow();
                names.retain(|name| is_known(name) || wanted.has(name));
            }
            Subject::Address(_) => {}
        }
        for rules in &self.rules.tasks {
            let (answer, told) = oneshot::channel();
            let question = UsesAsked {
                names: names.clone(),
                namespace: asked.namespace.clone(),
                answer,
            };
            rules.send(question).await.ok()?;
            for (name, uses) in names.iter().zip(told.await.ok()?) {
                known.uses.entry(name.clone()).or_default().add(uses);
            }
        }
        if let Subject::Name(name) = subject
            && !facts.names.iter().any(|name| name.wanted)
        {
            let remembered = &self.remembered;
            known.unwanted = remembered.recall(name, facts.at, Duration::ZERO);
            known.unwanted.truncate(10);
        }
        known.facts = Some(facts);
        Some(known)
    }
}

/// Rules without effect for the text, as far as the overview lists them.
fn refused(
    overview: &BySource<Arc<Overview>>,
    text: &str,
    namespace: Option<&str>,
) -> Vec<(ObjectKey, String)> {
    let faults = overview.iter().flat_map(|(_, it)| it.faults.iter());
    let counting = faults.filter(|(key, _)| namespace.is_none_or(|it| it == key.namespace));
    let named = counting.flat_map(|(key, faults)| {
        let subjects = faults.get(Fault::NameRefused).into_iter();
        let kept = subjects.flat_map(|subjects| &subjects.kept);
        let about = kept.filter(|subject| Fault::is_about(subject, text));
        about.map(|subject| (key.clone(), subject.clone()))
    });
    named.take(MOST).collect()
}

/// The objects that are left out, since the namespace has too many names.
fn left_out<'a>(
    overview: &'a BySource<Arc<Overview>>,
    namespace: Option<&'a str>,
) -> impl Iterator<Item = (Source, ObjectKey)> + 'a {
    let faults = overview
        .iter()
        .flat_map(|(source, it)| it.faults.iter().map(move |(key, it)| (source, key, it)));
    let counting = faults.filter(move |(_, key, faults)| {
        namespace.is_none_or(|it| it == key.namespace) && faults.get(Fault::ObjectLeftOut).is_some()
    });
    counting.map(|(source, key, _)| (source, key.clone()))
}
