//! What is known of a name or an address.

use std::{fmt, sync::Arc, time::Duration};

use proto::{
    api::DnsName,
    facts::{AnswerFacts, Asked, RuleFault, RuleFaultKind, Subject, SubjectFacts},
};
use runtime::store::{BadObject, ObjectKey};
use tokio::sync::oneshot;

use crate::facts::InspectSources;
use crate::{
    publish::InspectRequest,
    rules::{BySource, Overview, ReferencesRequest, Source, validation::Fault},
};

/// The most objects of a kind in an answer.
const MOST: usize = 10;

impl InspectSources {
    /// The facts, and whether this replica leads; `None` if a task does not answer.
    pub(super) async fn facts(&self, asked: &Asked) -> Option<(SubjectFacts, bool)> {
        let (mut facts, leader) = match &asked.subject {
            Ok(subject) => self.facts_of(subject, asked).await?,
            Err(_) => (SubjectFacts::default(), false),
        };
        let bad = self.process.bad_objects.list();
        facts.rule_faults = rule_faults(&self.rules.overview.borrow(), &bad, asked);
        Some((facts, leader))
    }

    async fn facts_of(&self, subject: &Subject, asked: &Asked) -> Option<(SubjectFacts, bool)> {
        let (sender, facts) = oneshot::channel();
        let question = InspectRequest::Facts(subject.clone(), sender);
        self.publisher.send(question).await.ok()?;
        let (mut facts, leader) = facts.await.ok()?;
        // Other namespaces are not revealed.
        if let Some(namespace) = &asked.namespace {
            for name in &mut facts.names {
                name.facts.at_cap.retain(|it| it.namespace == *namespace);
            }
        }
        let names = facts.names.iter().map(|it| it.facts.name.clone());
        let mut names: Vec<DnsName> = names.collect();
        if let Subject::Name(name) = subject {
            names.extend(near_misses(name));
        }
        for rules in &self.rules.tasks {
            let (answer, references) = oneshot::channel();
            let question = ReferencesRequest {
                names: names.clone(),
                namespace: asked.namespace.clone(),
                answer,
            };
            rules.send(question).await.ok()?;
            let all = references.await.ok()?;
            for (name, references) in names.iter().zip(all) {
                match facts.names.iter_mut().find(|it| it.facts.name == *name) {
                    Some(known) => known.references.extend(references),
                    None if references.rules.is_empty() || facts.near_misses.contains(name) => {}
                    None => facts.near_misses.push(name.clone()),
                }
            }
        }
        if let Subject::Name(name) = subject
            && !facts.names.iter().any(|it| it.facts.wanted)
        {
            let answers = self
                .remembered
                .recall(name, self.clock.now(), Duration::ZERO);
            let answers = answers.into_iter().take(MOST).map(|answer| AnswerFacts {
                name: answer.name,
                addresses: answer.addresses.iter().map(|(ip, _)| *ip).collect(),
                at: answer.at,
            });
            facts.unwanted = answers.collect();
        }
        Some((facts, leader))
    }
}

/// Wildcards that seem to match the name but do not: those with more than one label missing, and
/// the one directly below it.
fn near_misses(name: &DnsName) -> impl Iterator<Item = DnsName> {
    let suffixes = name.as_str().match_indices('.');
    let above = suffixes
        .skip(1)
        .filter_map(|(dot, _)| name.as_str().get(dot + 1..));
    let suffixes = std::iter::once(name.as_str()).chain(above);
    let suffixes = suffixes.filter(|_| !name.is_wildcard());
    suffixes.filter_map(|suffix| DnsName::parse(&format!("*.{suffix}")).ok())
}

/// Rules that are not applied or not known, at most ten of a kind; and rules that have the text as a name, as far as the
/// overview lists them.
fn rule_faults(
    overview: &BySource<Arc<Overview>>,
    bad: &[BadObject],
    asked: &Asked,
) -> Vec<RuleFault> {
    let about = |source: Source, object: Option<&dyn fmt::Display>, fault, reason: Option<&str>| {
        RuleFault {
            fault,
            kind: source.to_string(),
            object: object.map(ToString::to_string),
            reason: reason.map(ToOwned::to_owned),
        }
    };
    let counts = |key: &ObjectKey| {
        asked
            .namespace
            .as_ref()
            .is_none_or(|it| *it == key.namespace)
    };
    // The place of a file has no namespace.
    let is_in_namespace = |place: &str| {
        let namespace = place.split_once('/').map_or("", |(front, _)| front);
        namespace.is_empty() || asked.namespace.as_ref().is_none_or(|it| it == namespace)
    };
    let text = asked.text();
    let (mut refused, mut empty) = (Vec::new(), Vec::new());
    let (mut unreadable, mut left_out) = (Vec::new(), Vec::new());
    for (source, it) in overview.iter() {
        for (key, faults) in it.faults.iter().filter(|(key, _)| counts(key)) {
            let subjects = faults.get(Fault::NameRefused).into_iter();
            let subjects = subjects.flat_map(|subjects| &subjects.listed);
            let subjects = subjects.filter(|subject| Fault::is_about(subject, &text));
            refused.extend(
                subjects.map(|it| about(source, Some(key), RuleFaultKind::NameRefused, Some(it))),
            );
            if faults.get(Fault::NoDestination).is_some() {
                empty.push(about(source, Some(key), RuleFaultKind::NoDestination, None));
            }
            if faults.get(Fault::ObjectLeftOut).is_some() {
                left_out.push(about(source, Some(key), RuleFaultKind::RulesLeftOut, None));
            }
        }
        // The kind of an object that cannot be decoded has no group.
        let kind = source.kind().split('.').next();
        let bad = bad.iter().filter(|it| Some(it.kind.as_str()) == kind);
        let bad = bad.filter(|it| is_in_namespace(&it.place));
        unreadable.extend(bad.map(|it| {
            let (place, fault) = (&it.place, RuleFaultKind::RulesUnreadable);
            about(source, Some(place), fault, Some(&it.fault))
        }));
    }
    let out_of_sync = overview.out_of_sync();
    let out_of_sync = out_of_sync
        .map(|(source, why)| about(source, None, RuleFaultKind::RulesOutOfSync, Some(why)))
        .collect();
    let all = [refused, empty, out_of_sync, unreadable, left_out].into_iter();
    all.flat_map(|faults| faults.into_iter().take(MOST))
        .collect()
}
