//! The plan for one `DNSResolver`: its objects as they should be, beside the stored ones.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::IpAddr,
    time::Instant,
};

use k8s_openapi::{
    api::networking::v1::NetworkPolicy, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use proto::api::{CrdNetworkSet, CrdNetworkSetSpec, DnsName, IpMap, NetworkSet, NetworkSetSpec};
use runtime::store::{ObjectKey, Precondition};

use super::{Now, Operation, SetApi, state::State};
use crate::{
    content::{Content, KeptAddresses, ListedName, MAX_ADDRESSES, content},
    egress,
    names::Name,
    output::{Object, Observed, Output},
    ownership::{self, ByName},
    resolver::{Floor, Resolver},
};

/// The writes, and the facts to remember once they are done.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) operations: Vec<Operation>,
    pub(super) bytes: usize,
    pub(super) content: Content,
    /// When to plan again for writes that have to wait.
    pub(super) later_at: Option<Instant>,
    /// The kinds whose write failed and is tried later.
    pub(super) retried_later: BTreeSet<Output>,
    pub(super) floor: Floor,
    pub(super) fingerprints: BTreeMap<Output, u64>,
    pub(super) events: Vec<(&'static str, String)>,
}

impl Plan {
    fn wait_until(&mut self, at: Instant) {
        self.later_at = Some(self.later_at.map_or(at, |other| other.min(at)));
    }

    /// Whether the last write of the kind failed, and it is too early for another one.
    fn waits_for_retry(&mut self, resolver: &Resolver, output: Output, now: Now) -> bool {
        let later = resolver.retry_after(output);
        let Some(at) = later.filter(|at| *at > now.instant) else {
            return false;
        };
        self.wait_until(at);
        self.retried_later.insert(output);
        true
    }
}

/// A `DNSResolver` that is planned.
struct Draft<'a> {
    state: &'a State,
    key: &'a ObjectKey,
    resolver: &'a Resolver,
    now: Now,
}

/// Plans the writes for a `DNSResolver`.
pub(super) fn plan(state: &State, key: &ObjectKey, resolver: &Resolver, now: Now) -> Plan {
    let draft = Draft {
        state,
        key,
        resolver,
        now,
    };
    draft.plan()
}

impl Draft<'_> {
    fn plan(&self) -> Plan {
        let (state, key, resolver) = (self.state, self.key, self.resolver);
        let floor = floor(state, key, resolver);
        let mut plan = Plan {
            operations: Vec::new(),
            bytes: 0,
            content: self.content(&floor),
            later_at: None,
            retried_later: BTreeSet::new(),
            floor,
            fingerprints: BTreeMap::new(),
            events: Vec::new(),
        };
        let mut unwanted = Vec::new();
        // Whether each wanted object is there, or is created by this plan.
        let mut is_whole = true;
        for output in Output::ALL {
            let is_wanted = resolver.request.wants(output)
                || state.address_object(key, resolver) == Some(output);
            if !state.is_read(output)
                || state.stored.of(output).is_unreadable(key)
                || state.is_taken(key, resolver, output)
            {
                is_whole &= !is_wanted;
                continue;
            }
            if !is_wanted {
                // An unknown value removes nothing.
                let is_known = resolver.request.kind.is_some();
                let marked = state.marked(key, resolver, output).filter(|_| is_known);
                unwanted.extend(marked.map(|observed| (output, observed)));
                continue;
            }
            let ours = state.own(key, resolver, output);
            let is_created = self.plan_object(output, ours, &mut plan);
            is_whole &= ours.is_some() || is_created;
        }
        for (output, observed) in unwanted {
            // Another kind of object is there before the old one goes. Until then the old one follows the names.
            if !is_whole {
                if resolver.unanswered.is_empty() {
                    self.plan_object(output, Some(observed), &mut plan);
                }
                continue;
            }
            if plan.waits_for_retry(resolver, output, self.now) {
                continue;
            }
            plan.operations
                .push(Operation::Delete(output, precondition(observed)));
        }
        plan
    }

    /// Plans the write of a wanted object. Returns whether there is one.
    fn plan_object(&self, output: Output, ours: Option<&Observed>, plan: &mut Plan) -> bool {
        let (resolver, now) = (self.resolver, self.now);
        let Some(mut object) = self.object(plan, output) else {
            return false;
        };
        let fingerprint = object.fingerprint();
        if ours.is_some_and(|ours| ours.fingerprint == fingerprint) {
            plan.fingerprints.insert(output, fingerprint);
            return false;
        }
        let is_known = resolver.written.get(&output) == Some(&fingerprint);
        let later = resolver.put_right_after(output);
        if let Some(at) = later.filter(|at| is_known && *at > now.instant) {
            plan.wait_until(at);
            return false;
        }
        if plan.waits_for_retry(resolver, output, now) {
            return false;
        }
        if resolver.failures.contains_key(&output) && self.state.stored.of(output).is_out_of_sync {
            // Perhaps the kind is not served any more. The next list makes a new plan.
            plan.retried_later.insert(output);
            return false;
        }
        plan.fingerprints.insert(output, fingerprint);
        let Some(ours) = ours else {
            plan.bytes += object.size();
            plan.operations.push(Operation::Create(object));
            return true;
        };
        if ours.openness.is_open {
            let note = "a NetworkPolicy with a rule without destinations allowed everything; it allows only the addresses of the names now";
            plan.events.push(("OpenPolicyClosed", note.to_owned()));
        }
        object.replacing(ours);
        plan.bytes += object.size();
        plan.operations.push(Operation::Replace(object));
        true
    }

    fn content(&self, floor: &Floor) -> Content {
        let (state, key, resolver) = (self.state, self.key, self.resolver);
        let mut kept = KeptAddresses::default();
        // A policy selects pods of its namespace alone, and a set is for policies of all. A tenant that may write one of
        // them must not put addresses into the other.
        if let Some(kind) = state.address_object(key, resolver) {
            let of_kind = floor.get(&kind).into_iter().flat_map(ByName::values);
            kept.addresses.extend(of_kind.flatten());
        }
        let of_map = floor.get(&Output::Map);
        for (place, listed) in resolver.request.names.iter().enumerate() {
            let name = listed.name.as_ref();
            if name.is_ok_and(|name| state.names.is_answered(name)) {
                continue;
            }
            if let Some(addresses) = of_map.and_then(|it| it.get(&listed.text)) {
                kept.by_place.insert(place, addresses.clone());
            }
        }
        let mut present = resolver.planned.present.clone();
        // The plan of another process: its addresses stay at the limit.
        let new = floor
            .keys()
            .filter(|output| !resolver.planned.floor.contains_key(output));
        let ours = new.filter_map(|output| state.own(key, resolver, *output));
        present.extend(ours.flat_map(|it| it.addresses.values().flatten()));
        content(&self.listed_names(), &kept, &present, MAX_ADDRESSES)
    }

    /// The names of the list with their addresses, each name once.
    fn listed_names(&self) -> Vec<ListedName> {
        let mut listed: Vec<ListedName> = Vec::new();
        let mut known: HashMap<&DnsName, usize> = HashMap::new();
        for (place, it) in self.resolver.request.names.iter().enumerate() {
            let name = it.name.as_ref().ok();
            let same = name.and_then(|name| known.get(name));
            if let Some(same) = same.and_then(|same| listed.get_mut(*same)) {
                same.texts.insert(place, it.text.clone());
                continue;
            }
            if let Some(name) = name {
                known.insert(name, listed.len());
            }
            let addresses = name.and_then(|name| self.state.names.get(name));
            let addresses = addresses.into_iter().flat_map(Name::addresses);
            listed.push(ListedName {
                texts: [(place, it.text.clone())].into(),
                is_wildcard: name.is_some_and(DnsName::is_wildcard),
                addresses: addresses.collect(),
            });
        }
        listed
    }

    /// The object of a kind as it should be; `None` if the kind is not served.
    fn object(&self, plan: &Plan, output: Output) -> Option<Object> {
        let (state, key, resolver) = (self.state, self.key, self.resolver);
        let labels = match output {
            Output::Policy | Output::Map => resolver.request.labels.clone(),
            Output::Set => {
                let prefix = state.options.label_prefix.as_deref();
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
            annotations: Some(ownership::annotations()),
            owner_references: Some(vec![ownership::controller_reference(
                &key.name,
                &resolver.request.uid,
            )]),
            ..ObjectMeta::default()
        };
        Some(match (output, state.set_api) {
            (Output::Policy, _) => Object::Policy(NetworkPolicy {
                metadata,
                spec: Some(egress::policy(
                    &plan.content.addresses,
                    state.options.dns.as_ref(),
                )),
            }),
            (Output::Map, _) => {
                let data = Some(plan.content.ip_map());
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
            (Output::Set, SetApi::Unknown | SetApi::Missing) => return None,
        })
    }
}

/// The addresses of stored objects of ours, while a name is unanswered since the start. A kind that was not read is missing.
fn floor(state: &State, key: &ObjectKey, resolver: &Resolver) -> Floor {
    let floor = state.read_kinds().map(|output| {
        if resolver.unanswered.is_empty() {
            return (output, ByName::new());
        }
        // Taken once: later it may have been changed.
        if let Some(known) = resolver.planned.floor.get(&output) {
            return (output, known.clone());
        }
        let ours = state.marked(key, resolver, output);
        let addresses = ours.map(|it| guarded(state, &it.addresses));
        (output, addresses.unwrap_or_default())
    });
    floor.collect()
}

/// The addresses of an object that pass the guards.
fn guarded(state: &State, addresses: &ByName) -> ByName {
    let passes = |address: &&IpAddr| {
        let text = address.to_string();
        state.names.filter().admit(&text).is_ok()
    };
    let guarded = addresses.iter().map(|(name, addresses)| {
        let passed = addresses.iter().filter(passes).copied();
        (name.clone(), passed.collect())
    });
    guarded.collect()
}

pub(super) fn precondition(observed: &Observed) -> Precondition {
    Precondition {
        uid: observed.uid.clone(),
        resource_version: observed.version.clone(),
    }
}
