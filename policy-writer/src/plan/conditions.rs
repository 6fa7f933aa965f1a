//! The conditions of a `DNSResolver`, and the writes of its status.

use std::collections::BTreeMap;

use proto::api::{DnsResolver, DnsResolverSpec};
use runtime::store::ObjectKey;

use super::{
    InFlight, Job, MAX_ADDRESSES, Now, Output, Planner, Resolver,
    resolver::TOGETHER,
    status::{Statement, kinds, some_names, status},
};

/// The reason before the first write.
const PENDING: &str = "Pending";

impl Planner {
    /// The job that writes the status, if something but times has changed.
    pub(super) fn status_job(&mut self, key: &ObjectKey, now: Now) -> Option<Job> {
        let resolver = self.resolvers.get(key)?;
        // Before, nothing is known.
        let is_known = |output| self.is_read(output) || self.cannot_be_read(output);
        if !resolver.wanted().all(is_known) {
            return None;
        }
        let statements = self.statements(key, resolver);
        let is_ready = |it: &Statement| it.is_good() || !kinds::OF_READINESS.contains(&it.kind);
        let ready = statements.iter().all(is_ready);
        let (generation, before) = (resolver.generation, &resolver.status);
        let new = status(ready, &statements, generation, before, now.time);
        if new == *before {
            return None;
        }
        let resolver = self.resolvers.get_mut(key)?;
        if let Some(at) = resolver.status_not_before.filter(|at| *at > now.instant) {
            resolver.look_at(at);
            return None;
        }
        resolver.status_not_before = Some(now.instant + TOGETHER);
        let status_version = resolver.version.clone();
        let mut object = DnsResolver::new(&key.name, DnsResolverSpec::default());
        object.metadata.namespace = Some(key.namespace.clone());
        object.metadata.resource_version.clone_from(&status_version);
        let bytes = serde_json::to_vec(&new).map_or(0, |text| text.len());
        object.status = Some(new);
        for it in statements.into_iter().filter(|it| !it.is_good()) {
            // New names have no answer, and new objects are not written.
            if it.kind != kinds::RESOLVED && it.reason != PENDING {
                let is_written = it.kind == kinds::WRITTEN;
                let reason = if is_written { "NotWritten" } else { it.kind };
                self.report(key, reason, it.message);
            }
        }
        let job = InFlight {
            status_version,
            ..InFlight::default()
        };
        self.begin(key, bytes, job, now);
        Some(Job {
            key: key.clone(),
            operations: Vec::new(),
            status: Some(object),
            since: None,
        })
    }

    /// The conditions of a `DNSResolver`.
    fn statements(&self, key: &ObjectKey, resolver: &Resolver) -> Vec<Statement> {
        vec![
            self.resolved(resolver),
            self.written(key, resolver),
            self.name_taken(key, resolver),
            limit_exceeded(resolver),
            self.dns_blocked(key, resolver),
        ]
    }

    fn resolved(&self, resolver: &Resolver) -> Statement {
        let (mut waiting, mut missing, mut invalid) = (Vec::new(), Vec::new(), Vec::new());
        let mut refused = BTreeMap::<&str, Vec<&str>>::new();
        for listed in &resolver.request.names {
            let text = listed.text.as_str();
            match &listed.name {
                Err(_) => invalid.push(text),
                Ok(_) if self.names.is_answered(listed) => {}
                Ok(name) => match self.names.get(name).filter(|known| known.has_object()) {
                    Some(known) => match known.refused() {
                        Some(guard) => refused.entry(guard).or_default().push(text),
                        None => waiting.push(text),
                    },
                    None => missing.push(text),
                },
            }
        }
        let reason = if !missing.is_empty() {
            "NoDNSNameResolver"
        } else if !waiting.is_empty() {
            "Waiting"
        } else if !refused.is_empty() {
            "AnswersRefused"
        } else if !invalid.is_empty() {
            "InvalidNames"
        } else {
            "Answered"
        };
        let is_true = missing.is_empty() && waiting.is_empty() && refused.is_empty();
        let parts = [
            ("no answer yet", waiting),
            (
                "no DNSNameResolver, since the collector is away or has reached its limit of names",
                missing,
            ),
            ("not a DNS name of at least two labels", invalid),
        ];
        let parts = parts.into_iter().chain(refused);
        let parts = parts.filter(|(_, names)| !names.is_empty());
        let parts = parts.map(|(words, names)| format!("{words}: {}", some_names(names)));
        let message = parts.collect::<Vec<_>>().join("; ");
        Statement::new(kinds::RESOLVED, is_true, reason, message)
    }

    fn written(&self, key: &ObjectKey, resolver: &Resolver) -> Statement {
        let not_written =
            |reason, message: String| Statement::new(kinds::WRITTEN, false, reason, message);
        if let Some((output, failure)) = resolver.failures.iter().next() {
            let message = format!("{}: {}", output.name(), failure.reason);
            return not_written("Refused", message);
        }
        let is_unreadable = |output: &Output| self.stored.of(*output).is_unreadable(key);
        if let Some(output) = resolver.wanted().find(is_unreadable) {
            let message = format!("the stored {} does not decode", output.name());
            return not_written("Unreadable", message);
        }
        if resolver.wants(Output::Set) && self.lacks_sets {
            let message = "the cluster does not serve Calico's NetworkSet";
            return not_written("NotServed", message.to_owned());
        }
        let unread = resolver.wanted().filter(|output| !self.is_read(*output));
        let unread: Vec<_> = unread.map(Output::name).collect();
        if !unread.is_empty() {
            let message = format!(
                "the policy-writer cannot read any {}, so it writes none. Its log and /status.json say why; objects of other kinds are written",
                unread.join(" and ")
            );
            return not_written("KindUnreadable", message);
        }
        let is_pending = |output: Output| {
            !resolver.written.contains_key(&output) && !self.is_taken(key, resolver, output)
        };
        if resolver.wanted().any(is_pending) {
            return not_written(PENDING, "the first write is under way".to_owned());
        }
        if resolver.request.kind.is_none() {
            let kind = some_names([resolver.request.kind_text.as_str()]);
            let message =
                format!("spec.generateType {kind:?} is unknown, so only the IPMap is made");
            return not_written("UnknownGenerateType", message);
        }
        Statement::new(kinds::WRITTEN, true, "Written", "")
    }

    fn name_taken(&self, key: &ObjectKey, resolver: &Resolver) -> Statement {
        let taken = resolver
            .wanted()
            .filter(|it| self.is_taken(key, resolver, *it));
        let taken: Vec<_> = taken.map(Output::name).collect();
        if taken.is_empty() {
            return Statement::new(kinds::NAME_TAKEN, false, "Free", "");
        }
        let message = format!(
            "not written, because this DNSResolver is not the controller of the object of its name: {}",
            taken.join(", ")
        );
        Statement::new(kinds::NAME_TAKEN, true, "OtherController", message)
    }

    fn dns_blocked(&self, key: &ObjectKey, resolver: &Resolver) -> Statement {
        let policy = self.stored.get(Output::Policy, key);
        let is_isolated = resolver.wants(Output::Policy) && policy.is_some();
        if is_isolated && !self.stored.allows_dns(&key.namespace) {
            let message = "the NetworkPolicy selects all pods of the namespace, and no NetworkPolicy there lets pods reach DNS on UDP port 53";
            return Statement::new(kinds::DNS_BLOCKED, true, "NoPolicyForDNS", message);
        }
        Statement::new(kinds::DNS_BLOCKED, false, "Open", "")
    }
}

fn limit_exceeded(resolver: &Resolver) -> Statement {
    let mut message = Vec::new();
    if !resolver.left_out.is_empty() {
        let names = some_names(resolver.left_out.keys().map(String::as_str));
        message.push(format!(
            "an object has at most {MAX_ADDRESSES} addresses; addresses are left out of: {names}"
        ));
    }
    if resolver.request.too_many > 0 {
        let count = resolver.request.too_many;
        message.push(format!("names beyond the first 500 are left out: {count}"));
    }
    let is_true = !message.is_empty();
    let reason = if is_true { "Limit" } else { "Within" };
    Statement::new(kinds::LIMIT_EXCEEDED, is_true, reason, message.join("; "))
}
