//! The plan for one `DNSResolver`: its objects as they should be, beside the stored ones.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Instant,
};

use k8s_openapi::{
    api::networking::v1::NetworkPolicy, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use proto::api::{CrdNetworkSet, CrdNetworkSetSpec, IpMap, NetworkSet, NetworkSetSpec};
use runtime::{
    kube_events::Severity,
    store::{ObjectKey, Precondition},
};

use super::{Job, Now, Operation, Planner, SetApi};
use crate::{
    content::{Content, Limits, ListedName, content},
    egress,
    output::{Object, Observed, Output},
    ownership::{self, Adopted},
    resolver::{Floor, Resolver, TOGETHER},
};

/// The limit of an object's JSON.
const MAX_OBJECT: usize = 1 << 20;

/// The part of it for the metadata that are always there.
const METADATA: usize = 8 << 10;

/// The most bytes of adopted addresses: annotations have at most 256 KiB.
const MAX_ADOPTED: usize = 192 << 10;

/// The bytes that an adopted address takes at most.
const ADOPTED_ADDRESS: usize = 42;

/// The writes, and the facts to remember once they are done.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) operations: Vec<Operation>,
    pub(super) bytes: usize,
    content: Content,
    /// When to put a change of others right that has to wait.
    put_right_at: Option<Instant>,
    floor: Floor,
    adopted: BTreeMap<Output, Adopted>,
    fingerprints: BTreeMap<Output, u64>,
    events: Vec<(Severity, &'static str, String)>,
}

impl Planner {
    pub(super) fn plan(&self, key: &ObjectKey, now: Now) -> Plan {
        let mut plan = Plan {
            operations: Vec::new(),
            bytes: 0,
            content: Content::default(),
            put_right_at: None,
            floor: Floor::default(),
            adopted: BTreeMap::new(),
            fingerprints: BTreeMap::new(),
            events: Vec::new(),
        };
        let Some(resolver) = self.resolvers.get(key) else {
            return plan;
        };
        plan.floor = self.floor(key, resolver);
        let adopted = Output::ALL.into_iter();
        let adopted =
            adopted.filter_map(|output| Some((output, self.adopted(key, resolver, output, now)?)));
        plan.adopted = adopted.collect();
        plan.content = self.content(key, resolver, &plan.floor, &plan.adopted);
        let mut unwanted = Vec::new();
        for output in Output::ALL {
            let observed = self.outputs(output).get(key);
            let is_ours = |it: &&Observed| resolver.is_controller_of(it.controller.as_deref());
            let ours = observed.filter(is_ours);
            if self.outputs(output).is_unreadable(key) || (observed.is_some() && ours.is_none()) {
                continue;
            }
            let is_wanted = resolver.request.wants(output)
                || self.address_object(key, resolver) == Some(output);
            if !is_wanted {
                // An unknown value removes nothing.
                let is_known = resolver.request.kind.is_some();
                let marked = ours.filter(|it| it.is_marked && is_known);
                unwanted.extend(marked.map(|observed| (output, observed)));
                continue;
            }
            let is_adopted = plan.adopted.contains_key(&output);
            let Some(mut object) = self.object(key, resolver, &plan, output) else {
                continue;
            };
            let fingerprint = object.fingerprint();
            plan.fingerprints.insert(output, fingerprint);
            if ours.is_some_and(|ours| ours.fingerprint == fingerprint) {
                continue;
            }
            let is_known = resolver.written.get(&output) == Some(&fingerprint);
            let later = resolver.put_right_after(output);
            if let Some(at) = later.filter(|at| is_known && *at > now.instant) {
                plan.fingerprints.remove(&output);
                plan.put_right_at = Some(plan.put_right_at.map_or(at, |other| other.min(at)));
                continue;
            }
            match ours {
                Some(ours) => {
                    if ours.openness.is_open {
                        let note = "a NetworkPolicy with a rule without destinations allowed everything; it allows only the addresses of the names now";
                        plan.events
                            .push((Severity::Warning, "OpenPolicyClosed", note.to_owned()));
                    }
                    if is_adopted && !ours.is_marked {
                        let note = format!(
                            "took over the {} of another program, and keeps its addresses for a while",
                            output.name()
                        );
                        plan.events.push((Severity::Normal, "Adopted", note));
                    }
                    object.replacing(ours);
                    plan.bytes += object.size();
                    plan.operations.push(Operation::Replace(object));
                }
                None => {
                    plan.bytes += object.size();
                    plan.operations.push(Operation::Create(object));
                }
            }
        }
        // Another kind of object is written before the old one goes.
        for (output, observed) in unwanted {
            if output == Output::Policy {
                let note = "the NetworkPolicy is deleted, since spec.generateType no longer asks for it. Without a policy the pods of the namespace may reach everything";
                plan.events
                    .push((Severity::Warning, "PolicyRemoved", note.to_owned()));
            }
            plan.operations
                .push(Operation::Delete(output, precondition(observed)));
        }
        plan
    }

    /// The kind of object that has all addresses. For an unknown value it is the one that is there.
    fn address_object(&self, key: &ObjectKey, resolver: &Resolver) -> Option<Output> {
        let is_it = |output: &Output| match resolver.request.kind {
            Some(_) => resolver.request.wants(*output),
            None => self.outputs(*output).get(key).is_some_and(|it| {
                it.is_marked && resolver.is_controller_of(it.controller.as_deref())
            }),
        };
        [Output::Policy, Output::Set].into_iter().find(is_it)
    }

    /// The addresses of stored objects of ours, while a name is unanswered.
    fn floor(&self, key: &ObjectKey, resolver: &Resolver) -> Floor {
        if self.is_resolved(resolver) {
            return Floor::default();
        }
        if let Some(floor) = &resolver.floor {
            return floor.clone();
        }
        let of = |output: Output| {
            let observed = self.outputs(output).get(key)?;
            let is_ours = resolver.is_controller_of(observed.controller.as_deref());
            (is_ours && observed.is_marked).then(|| self.guarded(&observed.addresses))
        };
        let addresses = [Output::Policy, Output::Set].into_iter().map(|output| {
            let by_name = of(output).unwrap_or_default();
            (output, by_name.into_values().flatten().collect())
        });
        Floor {
            addresses: addresses.collect(),
            by_name: of(Output::Map).unwrap_or_default(),
        }
    }

    /// The addresses of an object that pass the guards.
    fn guarded(
        &self,
        addresses: &BTreeMap<String, BTreeSet<IpAddr>>,
    ) -> BTreeMap<String, BTreeSet<IpAddr>> {
        let passes = |address: &&IpAddr| self.names.filter().admit(&address.to_string()).is_ok();
        let guarded = addresses.iter().map(|(name, addresses)| {
            let passed = addresses.iter().filter(passes).copied();
            (name.clone(), passed.collect())
        });
        guarded.collect()
    }

    /// The adopted addresses of an object that are still kept. An object that this program has not written is adopted
    /// while `--adopt-until` allows it.
    fn adopted(
        &self,
        key: &ObjectKey,
        resolver: &Resolver,
        output: Output,
        now: Now,
    ) -> Option<Adopted> {
        if let Some(known) = resolver.adopted.as_ref().and_then(|all| all.get(&output)) {
            return (known.until() > now.time).then(|| known.clone());
        }
        let observed = self.outputs(output).get(key)?;
        if !resolver.is_controller_of(observed.controller.as_deref()) {
            return None;
        }
        // Later the annotation is not read: it may have been changed.
        if resolver.adopted.is_none()
            && let Some(known) = &observed.adopted
        {
            let until = known.until().min(now.time + self.options.retain);
            let known = Adopted::new(until, self.guarded(known.addresses()));
            return (until > now.time).then_some(known);
        }
        let may_adopt = self
            .options
            .adopt_until
            .is_some_and(|until| now.time < until);
        if observed.is_marked || resolver.written.contains_key(&output) || !may_adopt {
            return None;
        }
        let mut addresses = self.guarded(&observed.addresses);
        if output == Output::Map {
            let is_listed =
                |text: &String| resolver.request.names.iter().any(|it| it.text == *text);
            addresses.retain(|text, _| is_listed(text));
        }
        let mut room = (MAX_ADOPTED / ADOPTED_ADDRESS).min(self.options.max_addresses);
        for addresses in addresses.values_mut() {
            *addresses = std::mem::take(addresses).into_iter().take(room).collect();
            room -= addresses.len();
        }
        addresses.retain(|_, addresses| !addresses.is_empty());
        (!addresses.is_empty()).then(|| Adopted::new(now.time + self.options.retain, addresses))
    }

    fn content(
        &self,
        key: &ObjectKey,
        resolver: &Resolver,
        floor: &Floor,
        adopted: &BTreeMap<Output, Adopted>,
    ) -> Content {
        let listed = resolver.request.names.iter().map(|listed| {
            let name = listed.name.as_ref().ok();
            let known = name.and_then(|name| self.names.get(name));
            ListedName {
                text: listed.text.clone(),
                is_wildcard: name.is_some_and(proto::api::DnsName::is_wildcard),
                addresses: known
                    .into_iter()
                    .flat_map(|known| known.addresses())
                    .collect(),
            }
        });
        let listed: Vec<_> = listed.collect();
        // A policy selects pods of its namespace alone, and a set is for policies of all. A tenant that may write one of
        // them must not put addresses into the other.
        let mut others = BTreeSet::new();
        if let Some(kind) = self.address_object(key, resolver) {
            others.extend(floor.addresses.get(&kind).into_iter().flatten());
            others.extend(adopted.get(&kind).into_iter().flat_map(Adopted::all));
        }
        let largest = adopted
            .values()
            .map(|it| it.all().count() * ADOPTED_ADDRESS)
            .max();
        let labels: usize = resolver
            .request
            .labels
            .iter()
            .map(|(key, value)| key.len() + value.len() + 6)
            .sum();
        let taken = METADATA + labels + largest.unwrap_or(0);
        let limits = Limits {
            addresses: self.options.max_addresses,
            bytes: MAX_OBJECT.saturating_sub(taken),
        };
        let mut present = resolver.present.clone();
        if resolver.floor.is_none() {
            // The plan of another process: its addresses stay at the limit.
            let observed = Output::ALL
                .into_iter()
                .filter_map(|output| self.outputs(output).get(key));
            let ours = observed.filter(|it| resolver.is_controller_of(it.controller.as_deref()));
            present.extend(ours.flat_map(|it| it.addresses.values().flatten()));
        }
        content(&listed, &others, &present, limits)
    }

    /// The object of a kind as it should be; `None` if the kind is not served.
    fn object(
        &self,
        key: &ObjectKey,
        resolver: &Resolver,
        plan: &Plan,
        output: Output,
    ) -> Option<Object> {
        let adopted = plan.adopted.get(&output);
        let labels = match output {
            Output::Policy | Output::Map => resolver.request.labels.clone(),
            Output::Set => {
                let prefix = self.options.label_prefix.as_deref();
                let is_shown = |name: &str| prefix.is_some_and(|prefix| name.starts_with(prefix));
                let all = resolver
                    .request
                    .labels
                    .iter()
                    .filter(|(name, _)| is_shown(name));
                all.map(|(name, value)| (name.clone(), value.clone()))
                    .collect()
            }
        };
        let metadata = ObjectMeta {
            namespace: Some(key.namespace.clone()),
            name: Some(key.name.clone()),
            labels: (!labels.is_empty()).then_some(labels),
            annotations: Some(ownership::annotations(adopted)),
            owner_references: Some(vec![ownership::controller_reference(
                &key.name,
                &resolver.request.uid,
            )]),
            ..ObjectMeta::default()
        };
        Some(match (output, self.set_api) {
            (Output::Policy, _) => Object::Policy(NetworkPolicy {
                metadata,
                spec: Some(egress::policy(
                    &plan.content.addresses,
                    self.options.dns.as_ref(),
                )),
            }),
            (Output::Map, _) => {
                let mut content = plan.content.clone();
                self.add_by_name(resolver, &plan.floor, adopted, &mut content);
                let data = Some(content.ip_map());
                Object::Map(IpMap { metadata, data })
            }
            (Output::Set, SetApi::V3) => {
                let mut set = NetworkSet::new(
                    &key.name,
                    NetworkSetSpec {
                        nets: plan.content.nets(),
                    },
                );
                set.metadata = metadata;
                Object::Set(set)
            }
            (Output::Set, SetApi::Crd) => {
                let mut set = CrdNetworkSet::new(
                    &key.name,
                    CrdNetworkSetSpec {
                        nets: plan.content.nets(),
                    },
                );
                set.metadata = metadata;
                Object::CrdSet(set)
            }
            (Output::Set, SetApi::Missing) => return None,
        })
    }

    /// Adds the addresses that the IPMap had at the start, of unanswered names, and the adopted ones. They stay in the
    /// IPMap alone.
    fn add_by_name(
        &self,
        resolver: &Resolver,
        floor: &Floor,
        adopted: Option<&Adopted>,
        content: &mut Content,
    ) {
        let mut room = self
            .options
            .max_addresses
            .saturating_sub(content.addresses.len());
        for ((text, addresses), listed) in content.names.iter_mut().zip(&resolver.request.names) {
            let is_answered = listed
                .name
                .as_ref()
                .is_ok_and(|name| self.names.is_answered(name));
            let before = floor.by_name.get(text).filter(|_| !is_answered);
            let adopted = adopted.and_then(|adopted| adopted.addresses().get(text));
            for address in before.into_iter().chain(adopted).flatten() {
                if room > 0 && addresses.insert(*address) {
                    room -= 1;
                }
            }
        }
    }

    /// Begins a planned job.
    pub(super) fn begin(&mut self, key: &ObjectKey, plan: Plan, now: Now) -> Option<Job> {
        let job = Job {
            key: key.clone(),
            operations: plan.operations.clone(),
            status: None,
            since: self.resolvers.get(key).and_then(|it| it.dirty_since),
        };
        for (severity, reason, note) in plan.events.clone() {
            self.report(key, severity, reason, note);
        }
        self.settle(key, plan, now);
        let resolver = self.resolvers.get_mut(key)?;
        resolver.in_flight = true;
        resolver.meanwhile.clear();
        resolver.not_before = Some(now.instant + TOGETHER);
        Some(job)
    }

    /// Remembers a plan whose writes begin, or that has none.
    pub(super) fn settle(&mut self, key: &ObjectKey, plan: Plan, now: Now) {
        let Some(resolver) = self.resolvers.get_mut(key) else {
            return;
        };
        let addresses = &plan.content.addresses;
        resolver
            .since
            .retain(|address, _| addresses.contains(address));
        for address in addresses {
            resolver.since.entry(*address).or_insert(now.time);
        }
        resolver.present = plan.content.addresses;
        resolver.left_out = plan.content.left_out;
        (resolver.floor, resolver.adopted) = (Some(plan.floor), Some(plan.adopted));
        if plan.operations.is_empty() {
            // They are stored as they should be.
            resolver.written.extend(plan.fingerprints);
        }
        resolver
            .written
            .retain(|output, _| resolver.request.wants(*output));
        resolver.put_right_at = plan.put_right_at;
        (resolver.is_dirty, resolver.is_urgent) = (false, false);
        (resolver.dirty_since, resolver.waiting_bytes) = (None, None);
        resolver.new_names.clear();
        self.status_due.insert(key.clone());
    }

    /// Deletes marked objects whose `DNSResolver` is gone, in a store that does not do so.
    pub(super) fn orphans(&mut self, room: usize) -> Vec<Job> {
        if self.options.collects_garbage || !std::mem::take(&mut self.has_orphans) {
            return Vec::new();
        }
        let mut jobs: BTreeMap<ObjectKey, Job> = BTreeMap::new();
        for output in Output::ALL {
            for (key, observed) in self.outputs(output).all() {
                let owner = self.resolvers.get(key);
                let has_owner =
                    owner.is_some_and(|it| it.is_controller_of(observed.controller.as_deref()));
                let is_orphan = observed.controller.is_some() && observed.is_marked && !has_owner;
                if !is_orphan
                    || self.unreadable.contains(key)
                    || owner.is_some_and(|it| it.in_flight)
                {
                    continue;
                }
                let job = jobs.entry(key.clone()).or_insert_with(|| Job {
                    key: key.clone(),
                    operations: Vec::new(),
                    status: None,
                    since: None,
                });
                job.operations
                    .push(Operation::Delete(output, precondition(observed)));
            }
        }
        self.has_orphans = jobs.len() > room;
        jobs.into_values().take(room).collect()
    }
}

fn precondition(observed: &Observed) -> Precondition {
    Precondition {
        uid: observed.uid.clone(),
        resource_version: observed.version.clone(),
    }
}
