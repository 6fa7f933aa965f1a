//! The conditions of a `DNSResolver`, and the writes of its status.

use std::collections::BTreeSet;

use proto::api::{DnsResolver, DnsResolverSpec};
use runtime::{kube_events::Severity, store::ObjectKey};

use super::{Job, Now, SetApi, schedule::Schedule, state::State};
use crate::{
    content::MAX_ADDRESSES,
    names::Name,
    output::Output,
    resolver::Resolver,
    status::{Statement, kinds, some_names, status},
};

/// Conditions whose beginning is an Event, with the status that is a fault.
const REPORTED: [(&str, bool, &str); 4] = [
    (kinds::WRITTEN, false, "NotWritten"),
    (kinds::NAME_TAKEN, true, kinds::NAME_TAKEN),
    (kinds::LIMIT_EXCEEDED, true, kinds::LIMIT_EXCEEDED),
    (kinds::DNS_BLOCKED, true, kinds::DNS_BLOCKED),
];

/// The most statuses that are compared before other work goes on.
const COMPARED: usize = 64;

/// Adds jobs that write statuses, in turns of namespaces.
pub(super) fn status_jobs(
    state: &mut State,
    schedule: &mut Schedule,
    room: usize,
    jobs: &mut Vec<Job>,
    now: Now,
) {
    while let Some((at, _)) = schedule.statuses_later.first()
        && *at <= now.instant
        && let Some((_, key)) = schedule.statuses_later.pop_first()
    {
        schedule.status_due.insert(key);
    }
    let (mut room, mut compared) = (room, 0);
    while room > 0 && compared < COMPARED {
        let flights = &schedule.flights;
        let Some(key) = schedule
            .status_due
            .pop(|namespace| flights.has_room(namespace))
        else {
            break;
        };
        let Some(resolver) = state.resolvers.get(&key) else {
            continue;
        };
        if resolver.flight.is_under_way || !is_known(state, resolver) {
            // A finished job and a plan mark it again.
            continue;
        }
        let later = resolver.status_not_before();
        if let Some(at) = later.filter(|at| *at > now.instant) {
            schedule.statuses_later.insert((at, key));
            continue;
        }
        compared += 1;
        let statements = statements(state, &key, resolver);
        let ready = resolver.unanswered.is_empty()
            && statements.iter().all(|it| match it.kind {
                kinds::WRITTEN => it.is_true,
                kinds::NAME_TAKEN => !it.is_true,
                _ => true,
            });
        let before = &resolver.status;
        let new = status(ready, &statements, resolver.generation, before, now.time);
        if new == *before {
            continue;
        }
        if !schedule.flights.begin(&key) {
            continue;
        }
        room -= 1;
        let began = |(kind, fault, _): &&(&str, bool, &str)| {
            let holds = |told: &Statement| told.kind == *kind && told.is_true == *fault;
            let text = if *fault { "True" } else { "False" };
            let was = before
                .conditions
                .iter()
                .any(|it| it.type_ == *kind && it.status == text);
            statements.iter().any(holds) && !was
        };
        let reports: Vec<_> = REPORTED
            .iter()
            .filter(began)
            .filter_map(|(kind, _, reason)| {
                let told = statements.iter().find(|it| it.kind == *kind)?;
                Some((*reason, told.message.clone()))
            })
            // The first write is not late.
            .filter(|(_, message)| message != PENDING)
            .collect();
        let mut object = DnsResolver::new(&key.name, DnsResolverSpec::default());
        object.metadata.namespace = Some(key.namespace.clone());
        object
            .metadata
            .resource_version
            .clone_from(&resolver.version);
        object.status = Some(new);
        for (reason, message) in reports {
            state.report(&key, Severity::Warning, reason, message);
        }
        if let Some(resolver) = state.resolvers.get_mut(&key) {
            resolver.begin_status(now.instant);
        }
        jobs.push(Job {
            key,
            operations: Vec::new(),
            status: Some(object),
            since: None,
        });
    }
}

/// Whether each wanted kind was planned, or cannot be read. Before, after a start or a take-over, nothing is known.
fn is_known(state: &State, resolver: &Resolver) -> bool {
    let mut wanted = resolver.request.outputs();
    let planned = &resolver.planned;
    let is_known = |output| planned.floor.contains_key(&output) || is_unreadable(state, output);
    planned.is_known && wanted.all(is_known)
}

/// Whether the kind cannot be read for a reason that lasts. A kind whose first list is under way can.
fn is_unreadable(state: &State, output: Output) -> bool {
    let outputs = state.stored.of(output);
    let is_away = output == Output::Set && state.set_api == SetApi::Missing;
    is_away || (!outputs.has_been_read && outputs.is_out_of_sync)
}

fn statements(state: &State, key: &ObjectKey, resolver: &Resolver) -> Vec<Statement> {
    vec![
        resolved(state, resolver),
        written(state, key, resolver),
        name_taken(state, key, resolver),
        limit_exceeded(resolver),
        dns_blocked(state, key, resolver),
    ]
}

fn resolved(state: &State, resolver: &Resolver) -> Statement {
    let listed = || resolver.request.names.iter();
    let invalid = listed()
        .filter(|it| it.name.is_err())
        .map(|it| it.text.as_str());
    let invalid: BTreeSet<_> = invalid.collect();
    let (mut waiting, mut missing) = (BTreeSet::new(), BTreeSet::new());
    for it in listed() {
        let Ok(name) = &it.name else { continue };
        let has_object = state.names.get(name).is_some_and(Name::has_object);
        match (state.names.is_answered(name), has_object) {
            (true, _) => false,
            (false, true) => waiting.insert(it.text.as_str()),
            (false, false) => missing.insert(it.text.as_str()),
        };
    }
    let mut message = Vec::new();
    if !waiting.is_empty() {
        message.push(format!(
            "no answer yet: {}",
            some_names(waiting.iter().copied())
        ));
    }
    if !missing.is_empty() {
        message.push(format!(
            "no DNSNameResolver, since the collector is away or has reached its limit of names: {}",
            some_names(missing.iter().copied())
        ));
    }
    let is_answered = waiting.is_empty() && missing.is_empty();
    if !invalid.is_empty() {
        let names = some_names(invalid.iter().copied());
        message.push(format!("not a DNS name of at least two labels: {names}"));
    }
    let reason = match (is_answered, invalid.is_empty()) {
        (false, _) if missing.is_empty() => "Waiting",
        (false, _) => "NoDNSNameResolver",
        (true, false) => "InvalidNames",
        (true, true) => "Answered",
    };
    Statement::new(kinds::RESOLVED, is_answered, reason, message.join("; "))
}

fn written(state: &State, key: &ObjectKey, resolver: &Resolver) -> Statement {
    let said = |reason, message: String| Statement::new(kinds::WRITTEN, false, reason, message);
    if let Some((output, failure)) = resolver.failures.iter().next() {
        return said("Refused", format!("{}: {}", output.name(), failure.reason));
    }
    let wanted = || resolver.request.outputs();
    if let Some(output) = wanted().find(|output| state.stored.of(*output).is_unreadable(key)) {
        return said(
            "Unreadable",
            format!("the stored {} does not decode", output.name()),
        );
    }
    if resolver.request.wants(Output::Set) && state.set_api == SetApi::Missing {
        return said(
            "NotServed",
            "the cluster does not serve Calico's NetworkSet".to_owned(),
        );
    }
    let unread = wanted().filter(|output| !state.is_read(*output));
    let unread: Vec<_> = unread.map(Output::name).collect();
    if !unread.is_empty() {
        let kinds = unread.join(" and ");
        return said(
            "KindUnreadable",
            format!(
                "the policy-writer cannot read any {kinds}, so it writes none. Its log and /status.json say why; objects of other kinds are written"
            ),
        );
    }
    let is_taken = |output: &Output| state.is_taken(key, resolver, *output);
    if wanted().any(|output| !resolver.written.contains_key(&output) && !is_taken(&output)) {
        return said("Pending", PENDING.to_owned());
    }
    if resolver.request.kind.is_none() {
        let message = format!(
            "spec.generateType {:?} is unknown, so only the IPMap is made",
            some_names([resolver.request.kind_text.as_str()])
        );
        return said("UnknownGenerateType", message);
    }
    Statement::new(kinds::WRITTEN, true, "Written", "")
}

fn name_taken(state: &State, key: &ObjectKey, resolver: &Resolver) -> Statement {
    let wanted = resolver.request.outputs();
    let taken: Vec<_> = wanted
        .filter(|output| state.is_taken(key, resolver, *output))
        .collect();
    if taken.is_empty() {
        return Statement::new(kinds::NAME_TAKEN, false, "Free", "");
    }
    let kinds: Vec<_> = taken.iter().map(|output| output.name()).collect();
    let message = format!(
        "not written, because this DNSResolver is not the controller of the object of its name: {}",
        kinds.join(", ")
    );
    Statement::new(kinds::NAME_TAKEN, true, "OtherController", message)
}

fn dns_blocked(state: &State, key: &ObjectKey, resolver: &Resolver) -> Statement {
    let is_isolated =
        resolver.request.wants(Output::Policy) && state.stored.policies.get(key).is_some();
    if is_isolated && !state.stored.policies.allows_dns(&key.namespace) {
        let message = "the NetworkPolicy selects all pods of the namespace, and no NetworkPolicy there lets pods reach DNS on UDP port 53";
        return Statement::new(kinds::DNS_BLOCKED, true, "NoPolicyForDNS", message);
    }
    Statement::new(kinds::DNS_BLOCKED, false, "Open", "")
}

/// The message before the first write.
const PENDING: &str = "the first write is under way";

fn limit_exceeded(resolver: &Resolver) -> Statement {
    let mut message = Vec::new();
    if !resolver.planned.left_out.is_empty() {
        let names = some_names(resolver.planned.left_out.keys().map(String::as_str));
        message.push(format!(
            "an object has at most {MAX_ADDRESSES} addresses; addresses are left out of: {names}"
        ));
    }
    if resolver.request.too_many > 0 {
        message.push(format!(
            "names beyond the first 500 are left out: {}",
            resolver.request.too_many
        ));
    }
    let is_true = !message.is_empty();
    let reason = if is_true { "Limit" } else { "Within" };
    Statement::new(kinds::LIMIT_EXCEEDED, is_true, reason, message.join("; "))
}
