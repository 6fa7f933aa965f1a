//! The conditions of a `DNSResolver`, and the writes of its status.

use std::{
    collections::BTreeSet,
    ops::Bound::{Excluded, Unbounded},
};

use proto::api::{DnsResolver, DnsResolverSpec};
use runtime::{kube_events::Severity, store::ObjectKey};

use super::{Job, Now, Planner, SetApi};
use crate::{
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

impl Planner {
    /// Adds jobs that write statuses. It goes round all keys, so that none waits for those before it.
    pub(super) fn status_jobs(&mut self, room: usize, jobs: &mut Vec<Job>, now: Now) {
        let mut room = room;
        let mut later = BTreeSet::new();
        while room > 0
            && let Some(key) = self.next_status()
        {
            let Some(resolver) = self.resolvers.get(&key) else {
                continue;
            };
            // Before its first plan, after a start or a take-over, nothing is known.
            if resolver.in_flight || resolver.floor.is_none() {
                // A finished job and a plan mark it again.
                continue;
            }
            if resolver
                .status_not_before
                .is_some_and(|at| at > now.instant)
            {
                later.insert(key);
                continue;
            }
            let statements = self.statements(&key, resolver);
            let ready = self.is_resolved(resolver)
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
                self.report(&key, Severity::Warning, reason, message);
            }
            if let Some(resolver) = self.resolvers.get_mut(&key) {
                resolver.in_flight = true;
                resolver.meanwhile.clear();
            }
            jobs.push(Job {
                key,
                operations: Vec::new(),
                status: Some(object),
                since: None,
            });
        }
        self.status_due.append(&mut later);
    }

    /// Takes the next one out of those whose status may have to be written.
    fn next_status(&mut self) -> Option<ObjectKey> {
        let last = self.status_done.as_ref();
        let after = last.and_then(|last| {
            let mut after = self.status_due.range((Excluded(last), Unbounded));
            after.next()
        });
        let next = after.or_else(|| self.status_due.first()).cloned()?;
        self.status_due.remove(&next);
        self.status_done = Some(next.clone());
        Some(next)
    }

    fn statements(&self, key: &ObjectKey, resolver: &Resolver) -> Vec<Statement> {
        vec![
            self.resolved(resolver),
            self.written(key, resolver),
            self.name_taken(key, resolver),
            limit_exceeded(resolver, self.options.max_addresses),
            self.dns_blocked(key, resolver),
        ]
    }

    fn resolved(&self, resolver: &Resolver) -> Statement {
        let listed = || resolver.request.names.iter();
        let invalid = listed()
            .filter(|it| it.name.is_err())
            .map(|it| it.text.as_str());
        let invalid: BTreeSet<_> = invalid.collect();
        let waiting = listed().filter(|it| {
            it.name
                .as_ref()
                .is_ok_and(|name| !self.names.is_answered(name))
        });
        let waiting: BTreeSet<_> = waiting.map(|it| it.text.as_str()).collect();
        let mut message = Vec::new();
        if !waiting.is_empty() {
            message.push(format!(
                "no answer yet: {}",
                some_names(waiting.iter().copied())
            ));
        }
        if !invalid.is_empty() {
            let names = some_names(invalid.iter().copied());
            message.push(format!("not a DNS name of at least two labels: {names}"));
        }
        let reason = match (waiting.is_empty(), invalid.is_empty()) {
            (false, _) => "Waiting",
            (true, false) => "InvalidNames",
            (true, true) => "Answered",
        };
        Statement::new(
            kinds::RESOLVED,
            waiting.is_empty(),
            reason,
            message.join("; "),
        )
    }

    fn written(&self, key: &ObjectKey, resolver: &Resolver) -> Statement {
        let said = |reason, message: String| Statement::new(kinds::WRITTEN, false, reason, message);
        if let Some((output, failure)) = resolver.failures.iter().next() {
            return said("Refused", format!("{}: {failure}", output.name()));
        }
        let wanted = || {
            Output::ALL
                .into_iter()
                .filter(|output| resolver.request.wants(*output))
        };
        if let Some(output) = wanted().find(|output| self.outputs(*output).is_unreadable(key)) {
            return said(
                "Unreadable",
                format!("the stored {} does not decode", output.name()),
            );
        }
        if resolver.request.wants(Output::Set) && self.set_api == SetApi::Missing {
            return said(
                "NotServed",
                "the cluster does not serve Calico's NetworkSet".to_owned(),
            );
        }
        let is_taken = |output: &Output| self.is_taken(key, resolver, *output);
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

    /// Whether the DNSResolver is not the controller of the object of this kind.
    pub(super) fn is_taken(&self, key: &ObjectKey, resolver: &Resolver, output: Output) -> bool {
        let observed = self.outputs(output).get(key);
        observed.is_some_and(|it| !resolver.is_controller_of(it.controller.as_deref()))
    }

    fn name_taken(&self, key: &ObjectKey, resolver: &Resolver) -> Statement {
        let wanted = Output::ALL
            .into_iter()
            .filter(|output| resolver.request.wants(*output));
        let taken: Vec<_> = wanted
            .filter(|output| self.is_taken(key, resolver, *output))
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

    fn dns_blocked(&self, key: &ObjectKey, resolver: &Resolver) -> Statement {
        let is_isolated =
            resolver.request.wants(Output::Policy) && self.policies.get(key).is_some();
        if is_isolated && !self.policies.allows_dns(&key.namespace) {
            let message = "the NetworkPolicy selects all pods of the namespace, and no NetworkPolicy there lets pods reach DNS on UDP port 53";
            return Statement::new(kinds::DNS_BLOCKED, true, "NoPolicyForDNS", message);
        }
        Statement::new(kinds::DNS_BLOCKED, false, "Open", "")
    }
}

/// The message before the first write.
const PENDING: &str = "the first write is under way";

fn limit_exceeded(resolver: &Resolver, most: usize) -> Statement {
    let mut message = Vec::new();
    if !resolver.left_out.is_empty() {
        let names = some_names(resolver.left_out.keys().map(String::as_str));
        message.push(format!(
            "the objects have at most {most} addresses and 1 MiB; addresses are left out of: {names}"
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
