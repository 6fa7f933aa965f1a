//! `/explain` and `/explain.json`: why something is there, or is not.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    extract::{RawQuery, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use proto::api::DnsName;
use runtime::{
    inspect::{Asked, Subject, asked, html, json, page, refusal},
    store::ObjectKey,
};
use tokio::{
    sync::{Mutex, oneshot},
    time::{Instant, sleep_until, timeout},
};

use super::{Inspector, PATIENCE, Sources, busy};
use crate::{
    explain::{Explanation, Known, near_misses},
    owner::Question,
    policy::{Overview, UsesAsked, faults::Fault},
};

/// Who asks for an address has every name looked through, in the task that has to be fast: not more often than this.
const BETWEEN_ADDRESSES: Duration = Duration::from_millis(50);

/// When the next address may be asked for.
#[derive(Debug, Default)]
pub(super) struct Turn(Mutex<Option<Instant>>);

impl Turn {
    async fn take(&self) {
        let mut next = self.0.lock().await;
        if let Some(next) = *next {
            sleep_until(next).await;
        }
        *next = Some(Instant::now() + BETWEEN_ADDRESSES);
    }
}

pub(super) async fn in_json(
    State(inspector): State<Arc<Inspector>>,
    RawQuery(query): RawQuery,
) -> Response {
    match asked(query.as_deref()) {
        Ok(Some(asked)) => match inspector.explain(&asked).await {
            Some(explanation) => json(&explanation),
            None => busy(),
        },
        Ok(None) => refusal(
            StatusCode::BAD_REQUEST,
            "say what: ?about=NAME or ?about=ADDRESS",
        ),
        Err(error) => error.into_response(),
    }
}

pub(super) async fn in_html(
    State(inspector): State<Arc<Inspector>>,
    RawQuery(query): RawQuery,
) -> Response {
    match asked(query.as_deref()) {
        Ok(Some(asked)) => match inspector.explain(&asked).await {
            Some(Explanation {
                about,
                namespace,
                text,
                ..
            }) => page(html::explanation(
                "collector",
                Some(&about),
                namespace.as_deref(),
                &text,
            )),
            None => busy(),
        },
        Ok(None) => page(html::explanation("collector", None, None, &[])),
        Err(error) => error.into_response(),
    }
}

impl Inspector {
    /// Nothing if one of those who know does not say.
    pub(super) async fn explain(&self, asked: &Asked) -> Option<Explanation> {
        if matches!(asked.subject, Ok(Subject::Address(_))) {
            timeout(PATIENCE, self.turn.take()).await.ok()?;
        }
        let known = timeout(PATIENCE, self.sources.known(asked)).await;
        let known = known.ok().flatten()?;
        Some(Explanation::new(asked, &known, &self.sources.peers))
    }
}

impl Sources {
    async fn known(&self, asked: &Asked) -> Option<Known> {
        let overview = Arc::clone(&self.overview.borrow());
        let mut known = Known {
            at: self.clock.now(),
            facts: None,
            uses: BTreeMap::new(),
            notes: Vec::new(),
            unwanted: Vec::new(),
            refused_rules: Vec::new(),
            out_of_sync: overview.out_of_sync.clone(),
            unreadable: overview.undecodable.iter().take(10).cloned().collect(),
        };
        let subject = match &asked.subject {
            Ok(subject) => subject,
            Err((text, _)) => {
                known.refused_rules = refused(&overview, text, asked.namespace.as_deref());
                return Some(known);
            }
        };
        let (sender, told) = oneshot::channel();
        let question = Question::Facts(subject.clone(), sender);
        self.owner.send(question).await.ok()?;
        let facts = told.await.ok()?;
        let mut names: Vec<DnsName> = facts.names.iter().map(|it| it.name.clone()).collect();
        match subject {
            Subject::Name(name) => {
                known.notes = self.recent.of_name(name);
                names.extend(near_misses(asked));
                names.extend([Some(name.clone()), name.wildcard()].into_iter().flatten());
                names.sort_unstable();
                names.dedup();
                let is_known = |name: &DnsName| facts.names.iter().any(|it| it.name == *name);
                // A look at all rules for each is for those only that are in some.
                let wanted = self.wanted.borrow();
                names.retain(|name| is_known(name) || wanted.names.contains_key(name));
            }
            Subject::Address(address) => known.notes = self.recent.of_address(*address),
        }
        let (answer, told) = oneshot::channel();
        let question = UsesAsked {
            names: names.clone(),
            namespace: asked.namespace.clone(),
            answer,
        };
        self.rules.send(question).await.ok()?;
        known.uses = names.into_iter().zip(told.await.ok()?).collect();
        if let Subject::Name(name) = subject
            && !facts.names.iter().any(|name| name.wanted)
        {
            let remembered = &self.remembered;
            known.unwanted = remembered.recall([name], facts.at, Duration::ZERO);
            known.unwanted.truncate(10);
        }
        known.facts = Some(facts);
        Some(known)
    }
}

/// Rules without effect for the text, as far as they are named.
fn refused(overview: &Overview, text: &str, namespace: Option<&str>) -> Vec<(ObjectKey, String)> {
    let faults = overview.faults.iter();
    let counting = faults.filter(|(key, _)| namespace.is_none_or(|it| it == key.namespace));
    let named = counting.flat_map(|(key, faults)| {
        let subjects = faults.get(Fault::NameRefused).into_iter();
        let kept = subjects.flat_map(|subjects| &subjects.kept);
        let about = kept.filter(|subject| Fault::is_about(subject, text));
        about.map(|subject| (key.clone(), subject.clone()))
    });
    named.take(10).collect()
}
