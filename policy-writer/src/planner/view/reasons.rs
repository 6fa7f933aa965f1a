//! Why an object of a `DNSResolver` lacks an address, or is not written yet.

use runtime::{inspect::text::span, store::ObjectKey};
use serde::Serialize;

use super::kinds;
use crate::{
    content::MAX_ADDRESSES,
    output::Output,
    planner::{Now, SetApi, state::State},
    resolver::Resolver,
    status::{kinds::DNS_BLOCKED, some_names},
};

/// Why something is not as the names say.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Reason {
    /// Its kind, for programs.
    pub reason: &'static str,
    pub words: String,
}

impl Reason {
    pub(super) fn new(reason: &'static str, words: impl Into<String>) -> Self {
        let words = words.into();
        Self { reason, words }
    }
}

/// Why this process writes nothing, or not all.
pub(super) fn idle_reasons(state: &State) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let unread = state.unread();
    if !unread.is_empty() {
        let words = format!("objects are not read yet: {}", unread.join(", "));
        reasons.push(Reason::new("NotRead", words));
    }
    if !state.is_leading {
        let words = "this policy-writer writes nothing, since it does not lead";
        reasons.push(Reason::new("NotLeading", words));
    }
    reasons
}

/// Why the objects of a `DNSResolver` are not as its names say, or not yet.
pub(super) fn reasons(
    state: &State,
    key: &ObjectKey,
    resolver: &Resolver,
    now: Now,
) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let mut add = |reason, words: String| reasons.push(Reason::new(reason, words));
    if state.unreadable.contains(key) {
        let words = "the DNSResolver does not decode; its last readable version counts";
        add("Unreadable", words.to_owned());
    }
    for output in kinds(state, key, resolver) {
        let kind = output.name();
        if state.stored.of(output).is_unreadable(key) {
            add("Unreadable", format!("the stored {kind} does not decode"));
        } else if state.is_taken(key, resolver, output) {
            let words = format!("the {kind} of this name has another owner, and is left alone");
            add("NameTaken", words);
        }
        if output == Output::Set && state.set_api == SetApi::Missing {
            let words = "the cluster does not serve Calico's NetworkSet";
            add("NotServed", words.to_owned());
        }
        if let Some(failure) = resolver.failures.get(&output) {
            add(
                "Refused",
                format!("the {kind} cannot be written: {}", failure.reason),
            );
        }
    }
    if resolver.request.kind.is_none() {
        let kind = some_names([resolver.request.kind_text.as_str()]);
        let words = format!("spec.generateType {kind:?} is unknown, so only the IPMap is made");
        add("UnknownGenerateType", words);
    }
    if let Some(words) = waits_for_answers(state, resolver, now) {
        add("Waiting", words);
    }
    if let Some(at) = resolver.budget.wait(now).filter(|_| resolver.due.is_dirty) {
        let wait = span(at.saturating_duration_since(now.instant));
        let words = "since its objects had more than 128 KiB/s of writes";
        add(
            "Budget",
            format!("the next write waits for {wait}, {words}"),
        );
    }
    if let Some(at) = resolver.due.later_at.filter(|at| *at > now.instant) {
        let wait = span(at.saturating_duration_since(now.instant));
        add(
            "Paused",
            format!(
                "the next write is due in {wait}, after changes by another account or failures"
            ),
        );
    }
    if !resolver.planned.left_out.is_empty() {
        let names = some_names(resolver.planned.left_out.keys().map(String::as_str));
        let words = format!(
            "an object has at most {MAX_ADDRESSES} addresses; left out are addresses of {names}"
        );
        add("LimitExceeded", words);
    }
    if resolver.request.too_many > 0 {
        let count = resolver.request.too_many;
        add(
            "LimitExceeded",
            format!("names beyond the first 500 are left out: {count}"),
        );
    }
    let conditions = resolver.status.conditions.iter();
    let mut blocked = conditions.filter(|it| it.type_ == DNS_BLOCKED && it.status == "True");
    if let Some(blocked) = blocked.next() {
        add("DNSBlocked", blocked.message.clone());
    }
    reasons
}

/// The names without an answer that a write waits for.
fn waits_for_answers(state: &State, resolver: &Resolver, now: Now) -> Option<String> {
    let wait = resolver
        .due
        .hold_until
        .checked_duration_since(now.instant)?;
    let names = resolver.request.names.iter();
    let names = names.filter(|it| {
        let name = it.name.as_ref();
        name.is_ok_and(|name| !state.names.is_answered(name))
    });
    let names: Vec<&str> = names.map(|it| it.text.as_str()).collect();
    let waits = resolver.due.is_dirty && !names.is_empty() && !wait.is_zero();
    waits.then(|| {
        let names = some_names(names);
        format!(
            "the write waits for the first look-ups of {names}, for at most {}",
            span(wait)
        )
    })
}

/// Why an object has an address that no name of the list has.
pub(super) fn kept_because(resolver: &Resolver) -> &'static str {
    if !resolver.unanswered.is_empty() {
        return "no name has it now; it stays until each name is answered once";
    }
    "no name has it now, and it is about to leave"
}
