//! Events of the store.

use std::collections::BTreeSet;

use proto::api::{DnsName, DnsNameResolver, DnsResolver};
use runtime::store::{Event, ObjectKey};

use super::{Now, schedule::Schedule, state::State};
use crate::{
    output::{Observed, Output, Written, covers},
    resolver::{Meanwhile, Resolver},
};

/// Applies an event about statuses of names.
pub(super) fn apply_names(state: &mut State, event: &Event<DnsNameResolver>, now: Now) {
    // Only the names of the event: there may be many others. A deletion answers nothing.
    let objects = match event {
        Event::Applied(object) => std::slice::from_ref(object),
        Event::Synced(objects) => objects.as_slice(),
        Event::Deleted(_) | Event::Undecodable(_) | Event::OutOfSync(_) => &[],
    };
    let names = objects.iter().map(|it| DnsName::parse(&it.spec.name));
    let was_answered: BTreeSet<DnsName> = names
        .flatten()
        .filter(|name| state.names.is_answered(name))
        .collect();
    for name in state.names.apply(event) {
        let Some(users) = state.users.get(&name) else {
            state.names.forget(&name);
            continue;
        };
        let is_answered = state.names.is_answered(&name);
        for key in users {
            if let Some(resolver) = state.resolvers.get_mut(key) {
                if is_answered {
                    resolver.unanswered.remove(&name);
                }
                let is_new = resolver.due.new_names.contains(&name);
                resolver.due.is_urgent |= !is_new || was_answered.contains(&name);
                resolver.due.touch(now.instant);
            }
        }
    }
}

/// Applies an event about `DNSResolver` objects.
pub(super) fn apply_resolvers(
    state: &mut State,
    schedule: &mut Schedule,
    event: &Event<DnsResolver>,
    now: Now,
) {
    match event {
        Event::Synced(objects) => {
            state.resolvers_read = true;
            let listed: BTreeSet<_> = objects.iter().map(ObjectKey::of).collect();
            let is_there = |key: &ObjectKey| listed.contains(key) || covers(&state.unreadable, key);
            let gone: Vec<_> = state
                .resolvers
                .keys()
                .filter(|key| !is_there(key))
                .cloned()
                .collect();
            for key in gone {
                remove_resolver(state, schedule, &key);
            }
            for object in objects {
                put_resolver(state, schedule, object, now);
            }
        }
        Event::Applied(object) => put_resolver(state, schedule, object, now),
        Event::Deleted(key) => remove_resolver(state, schedule, key),
        Event::Undecodable(keys) => state.unreadable.clone_from(keys),
        Event::OutOfSync(_) => {}
    }
}

fn put_resolver(state: &mut State, schedule: &mut Schedule, object: &DnsResolver, now: Now) {
    let key = ObjectKey::of(object);
    let uid = crate::ownership::uid_of(object);
    let known = state.resolvers.get(&key);
    if known.is_some_and(|known| known.request.uid != uid) {
        remove_resolver(state, schedule, &key);
    }
    schedule.status_due.insert(key.clone());
    state.seen_namespaces.insert(key.namespace.clone());
    let before = match state.resolvers.get_mut(&key) {
        Some(resolver) => match resolver.update(object, now.instant) {
            Some(before) => before.valid().cloned().collect(),
            None => return,
        },
        None => {
            let mut resolver = Resolver::new(object, now.instant);
            if schedule.flights.has_job(&key) {
                // A job of the object before is under way, and events since then were not kept for it.
                resolver.flight.begin();
                let all = Output::ALL.map(|output| (output, Meanwhile::Listed));
                resolver.flight.meanwhile.extend(all);
            }
            state.resolvers.insert(key.clone(), resolver);
            BTreeSet::new()
        }
    };
    let after: BTreeSet<DnsName> = state
        .resolvers
        .get(&key)
        .map(|resolver| resolver.request.valid().cloned().collect())
        .unwrap_or_default();
    state.change_users(&key, &before, &after);
    if let Some(resolver) = state.resolvers.get_mut(&key) {
        let mut unanswered = after;
        unanswered.retain(|name| !state.names.is_answered(name));
        resolver.unanswered = unanswered;
    }
}

fn remove_resolver(state: &mut State, schedule: &mut Schedule, key: &ObjectKey) {
    if let Some(resolver) = state.resolvers.remove(key) {
        let names = resolver.request.valid().cloned().collect();
        state.change_users(key, &names, &BTreeSet::new());
    }
    schedule.status_due.remove(key);
    schedule.has_orphans = true;
}

/// Applies an event about objects of a kind that this program writes.
pub(super) fn apply_output<K: Written>(
    state: &mut State,
    schedule: &mut Schedule,
    event: &Event<K>,
    now: Now,
) {
    match event {
        Event::Synced(objects) => apply_list(state, schedule, objects, now),
        Event::Applied(object) => {
            let (key, observed) = (ObjectKey::of(object), Observed::of(object));
            output_changed(state, schedule, (K::OUTPUT, key, observed), false, now);
        }
        Event::Deleted(key) => output_removed(state, schedule, K::OUTPUT, key, now),
        Event::Undecodable(keys) => state.stored.of_mut(K::OUTPUT).set_unreadable(keys),
        Event::OutOfSync(_) => {
            let outputs = state.stored.of_mut(K::OUTPUT);
            outputs.is_out_of_sync = true;
            if !outputs.has_been_read {
                schedule.mark_users_of(K::OUTPUT, state);
            }
        }
    }
}

fn apply_list<K: Written>(state: &mut State, schedule: &mut Schedule, objects: &[K], now: Now) {
    let output = K::OUTPUT;
    for resolver in state.resolvers.values_mut() {
        resolver.flight.saw(output, Meanwhile::Listed);
    }
    let listed = objects.iter().map(ObjectKey::of).collect();
    for key in state.stored.of(output).missing(&listed) {
        output_removed(state, schedule, output, &key, now);
    }
    for object in objects {
        let (key, observed) = (ObjectKey::of(object), Observed::of(object));
        output_changed(state, schedule, (output, key, observed), true, now);
    }
    let outputs = state.stored.of_mut(output);
    outputs.is_out_of_sync = false;
    let is_first = !std::mem::replace(&mut outputs.has_been_read, true);
    for resolver in state.resolvers.values_mut() {
        // Plans before the first list lack the kind, and failed writes may have waited for any list.
        if resolver.failures.remove(&output).is_some() || is_first {
            resolver.due.touch(now.instant);
        }
    }
}

fn output_changed(
    state: &mut State,
    schedule: &mut Schedule,
    (output, key, observed): (Output, ObjectKey, Observed),
    is_listed: bool,
    now: Now,
) {
    let fingerprint = observed.fingerprint;
    let controller = observed.controller.clone();
    if let Some(resolver) = state.resolvers.get_mut(&key) {
        resolver.flight.saw(output, Meanwhile::Changed);
    }
    let allowed_dns = state.stored.policies.allows_dns(&key.namespace);
    let outputs = state.stored.of_mut(output);
    let has_changed = if is_listed {
        outputs.replace(key.clone(), observed)
    } else {
        outputs.put(key.clone(), observed)
    };
    if !has_changed {
        return;
    }
    schedule.has_orphans = true;
    schedule.compare_dns(state, &key.namespace, allowed_dns);
    if let Some(resolver) = state.resolvers.get_mut(&key) {
        let written = resolver.written.get(&output);
        // While a job writes objects the event may tell of its own write.
        let is_foreign = !resolver.flight.is_writing_objects;
        if is_foreign && written.is_some_and(|written| *written != fingerprint) {
            resolver.undone(output, now.instant);
            state.undone += 1;
        } else if resolver.is_controller_of(controller.as_deref()) {
            // An object of another owner is left alone, so it is no reason for a plan.
            resolver.due.touch(now.instant);
        }
        schedule.status_due.insert(key);
    }
}

fn output_removed(
    state: &mut State,
    schedule: &mut Schedule,
    output: Output,
    key: &ObjectKey,
    now: Now,
) {
    if let Some(resolver) = state.resolvers.get_mut(key) {
        resolver.flight.saw(output, Meanwhile::Removed);
    }
    let allowed_dns = state.stored.policies.allows_dns(&key.namespace);
    if state.stored.of_mut(output).remove(key).is_none() {
        return;
    }
    schedule.compare_dns(state, &key.namespace, allowed_dns);
    if let Some(resolver) = state.resolvers.get_mut(key) {
        if resolver.request.wants(output) {
            if resolver.written.contains_key(&output) {
                resolver.undone(output, now.instant);
                state.undone += 1;
            } else {
                resolver.due.touch(now.instant);
            }
        }
        schedule.status_due.insert(key.clone());
    }
}
