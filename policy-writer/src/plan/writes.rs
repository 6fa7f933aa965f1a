//! The writes for one `DNSResolver`: its objects as they should be, beside the stored ones.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use proto::api::DnsName;
use runtime::store::ObjectKey;

use super::{
    Body, ByName, Content, InFlight, Job, MAX_ADDRESSES, Now, Object, Operation, Output, Planner,
    RATE, Resolver,
    content::{ListedName, content},
    egress, ownership,
    resolver::TOGETHER,
};

/// The writes that are due, and the facts to remember.
#[derive(Debug, Default)]
struct Plan {
    operations: Vec<Operation>,
    bytes: usize,
    /// The objects that are stored as they should be.
    right: BTreeMap<Output, u64>,
    /// The kinds whose write failed and is tried later.
    failing: BTreeSet<Output>,
    /// How many changes of other accounts it puts right.
    undone: u64,
    closes_open_policy: bool,
}

impl Planner {
    /// Plans a `DNSResolver`, and begins its job if something has to be written now.
    pub(super) fn look(&mut self, key: &ObjectKey, now: Now) -> Option<Job> {
        self.keep_stored_addresses(key);
        let resolver = self.resolvers.get(key)?;
        if let Some(at) = self.held_until(key, resolver, now) {
            self.resolvers.get_mut(key)?.next_look = Some(at);
            return None;
        }
        let content = self.content(key, resolver);
        let plan = self.plan(key, resolver, &content, now);
        let resolver = self.resolvers.get_mut(key)?;
        resolver.addresses = content.addresses.len();
        resolver.left_out = content.left_out;
        resolver.written.extend(plan.right);
        let wanted: Vec<_> = resolver.wanted().collect();
        resolver.written.retain(|output, _| wanted.contains(output));
        let is_written = |output| plan.operations.iter().any(|it| it.output() == output);
        resolver
            .failures
            .retain(|output, _| plan.failing.contains(output) || is_written(*output));
        resolver.next_look = resolver.failures.values().map(|it| it.retry_at).min();
        if plan.operations.is_empty() {
            resolver.changed_at = None;
            return self.status_job(key, now);
        }
        if let Some(at) = resolver.not_before.filter(|at| *at > now.instant) {
            resolver.look_at(at);
            return self.status_job(key, now);
        }
        resolver.not_before = Some(now.instant + TOGETHER);
        let since = resolver.changed_at.take();
        self.undone += plan.undone;
        if plan.closes_open_policy {
            let note = "a NetworkPolicy with a rule without destinations allowed everything; it allows only the addresses of the names now";
            self.report(key, "OpenPolicyClosed", note.to_owned());
        }
        self.begin(key, plan.bytes, InFlight::default(), now);
        Some(Job {
            key: key.clone(),
            operations: plan.operations,
            status: None,
            since,
        })
    }

    /// Records the beginning of a job.
    pub(super) fn begin(&mut self, key: &ObjectKey, bytes: usize, job: InFlight, now: Now) {
        self.bucket.withdraw(bytes, RATE, now.time);
        self.written.add(key.namespace.clone(), bytes, now.time);
        self.in_flight.insert(key.clone(), job);
    }

    /// Keeps the addresses of the stored objects of this program while a name is unanswered since the start. Those of a kind
    /// are taken once: later they may have been changed.
    fn keep_stored_addresses(&mut self, key: &ObjectKey) {
        let Some(resolver) = self.resolvers.get(key) else {
            return;
        };
        let mut kept = BTreeMap::new();
        let is_answered = self.is_answered(resolver);
        for output in Output::ALL.into_iter().filter(|it| self.is_read(*it)) {
            if is_answered {
                kept.insert(output, ByName::new());
            } else if !resolver.kept.contains_key(&output) {
                let stored = self.marked(key, resolver, output);
                let stored = stored.map(|it| self.guarded(&it.addresses));
                kept.insert(output, stored.unwrap_or_default());
            }
        }
        if let Some(resolver) = self.resolvers.get_mut(key) {
            resolver.kept.extend(kept);
        }
    }

    /// The addresses that pass the guards.
    fn guarded(&self, addresses: &ByName) -> ByName {
        let passes = |address: &&IpAddr| {
            let text = address.to_string();
            self.names.filter().admit(&text).is_ok()
        };
        let lists = addresses.iter();
        let guarded = lists.map(|(name, list)| {
            let passed = list.iter().filter(passes).copied().collect();
            (name.clone(), passed)
        });
        guarded.collect()
    }

    /// The content of the objects of a `DNSResolver`.
    pub(crate) fn content(&self, key: &ObjectKey, resolver: &Resolver) -> Content {
        // A policy selects pods of its namespace alone, and a set is for policies of all. A tenant that may write one of
        // them must not put addresses into the other. So those of a kind stay in this kind.
        let kinds = self.kinds_of(key, resolver);
        let decides = kinds.first().copied().unwrap_or(Output::Map);
        let kept = resolver.kept.get(&decides).into_iter();
        let kept = kept.filter(|_| decides != Output::Map);
        let kept = kept.flat_map(|it| it.values().flatten().copied()).collect();
        let stored = self.own(key, resolver, decides).into_iter();
        let stored = stored.flat_map(|it| it.addresses.values().flatten().copied());
        let kept_by_map = resolver.kept.get(&Output::Map);
        let listed = resolver.request.names.iter().map(|listed| {
            let kept = kept_by_map.and_then(|it| it.get(&listed.text));
            let kept = kept.filter(|_| !self.names.is_answered(listed));
            ListedName {
                text: listed.text.clone(),
                is_wildcard: listed.name.as_ref().is_ok_and(DnsName::is_wildcard),
                addresses: self.names.addresses(listed),
                kept: kept.cloned().unwrap_or_default(),
            }
        });
        let listed: Vec<_> = listed.collect();
        content(&listed, &kept, &stored.collect(), MAX_ADDRESSES)
    }

    fn plan(&self, key: &ObjectKey, resolver: &Resolver, content: &Content, now: Now) -> Plan {
        let mut plan = Plan::default();
        let kinds = self.kinds_of(key, resolver);
        // Whether each object is there, or is created by this plan.
        let mut is_whole = true;
        for output in &kinds {
            is_whole &= self.plan_object(*output, key, resolver, content, now, &mut plan);
        }
        // An unknown value removes nothing.
        let is_known = resolver.request.kind.is_some();
        for output in Output::ALL.into_iter().filter(|it| !kinds.contains(it)) {
            let old = self.marked(key, resolver, output).filter(|_| is_known);
            let Some(old) = old.filter(|_| self.may_write(output, key, resolver)) else {
                continue;
            };
            if is_whole && !waits_for_retry(output, resolver, now, &mut plan) {
                let operation = Operation::Delete(output, old.precondition());
                plan.operations.push(operation);
            } else if self.is_answered(resolver) {
                // Another kind of object is there before the old one goes. Until then the old one follows the names.
                self.plan_object(output, key, resolver, content, now, &mut plan);
            }
        }
        plan
    }

    fn may_write(&self, output: Output, key: &ObjectKey, resolver: &Resolver) -> bool {
        let is_readable = self.is_read(output) && !self.stored.of(output).is_unreadable(key);
        is_readable && !self.is_taken(key, resolver, output)
    }

    /// Plans the write of one object. Returns whether it is there, or is created by the plan.
    fn plan_object(
        &self,
        output: Output,
        key: &ObjectKey,
        resolver: &Resolver,
        content: &Content,
        now: Now,
        plan: &mut Plan,
    ) -> bool {
        if !self.may_write(output, key, resolver) {
            return false;
        }
        let stored = self.own(key, resolver, output);
        let mut object = self.object(output, key, resolver, content);
        let (fingerprint, size) = object.digest();
        if stored.is_some_and(|it| it.fingerprint == fingerprint) {
            plan.right.insert(output, fingerprint);
            return true;
        }
        if waits_for_retry(output, resolver, now, plan) {
            return stored.is_some();
        }
        // This process wrote it like this, so another account has changed or deleted it.
        plan.undone += u64::from(resolver.written.get(&output) == Some(&fingerprint));
        if let Some(stored) = stored {
            plan.closes_open_policy |= stored.is_open;
            object.replacing(stored);
        }
        plan.bytes += size;
        plan.operations.push(Operation::Put(Box::new(object)));
        true
    }

    /// An object as it should be.
    fn object(
        &self,
        output: Output,
        key: &ObjectKey,
        resolver: &Resolver,
        content: &Content,
    ) -> Object {
        let mut labels = resolver.request.labels.clone();
        let body = match output {
            Output::Policy => {
                let dns = self.options.dns.as_ref();
                Body::Policy(egress::policy(&content.addresses, dns))
            }
            Output::Map => Body::Map(content.ip_map()),
            Output::Set => {
                let prefix = self.options.label_prefix.as_deref();
                labels.retain(|name, _| prefix.is_some_and(|prefix| name.starts_with(prefix)));
                Body::Set(content.nets())
            }
        };
        let owner = ownership::controller_reference(&key.name, &resolver.request.uid);
        let metadata = ObjectMeta {
            namespace: Some(key.namespace.clone()),
            name: Some(key.name.clone()),
            labels: (!labels.is_empty()).then_some(labels),
            annotations: Some(ownership::annotations()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        };
        Object { metadata, body }
    }
}

/// Whether the last write of the kind failed, and it is too early for another one.
fn waits_for_retry(output: Output, resolver: &Resolver, now: Now, plan: &mut Plan) -> bool {
    let failure = resolver.failures.get(&output);
    let waits = failure.is_some_and(|it| it.retry_at > now.instant);
    if waits {
        plan.failing.insert(output);
    }
    waits
}
