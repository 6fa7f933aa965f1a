//! The plan for one `DNSResolver`: its objects as they should be, beside the stored ones.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Instant,
};

use k8s_openapi::{
    api::networking::v1::NetworkPolicy, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use proto::api::{CrdNetworkSet, CrdNetworkSetSpec, DnsName, IpMap, NetworkSet, NetworkSetSpec};
use runtime::{
    kube_events::Severity,
    store::{ObjectKey, Precondition},
};

use super::{
    Now, Operation, SetApi,
    floor::{ADOPTED_ADDRESS, adopted, floor},
    state::State,
};
use crate::{
    content::{Content, Limits, ListedName, content},
    egress,
    names::Name,
    output::{Object, Observed, Output},
    ownership::{self, Adopted, ByName},
    resolver::{Floor, Resolver},
};

/// The limit of an object's JSON.
const MAX_OBJECT: usize = 1 << 20;

/// The part of it for the metadata that are always there.
const METADATA: usize = 8 << 10;

/// The writes, and the facts to remember once they are done.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) operations: Vec<Operation>,
    pub(super) bytes: usize,
    /// The bytes that the stored objects grow by.
    pub(super) growth: usize,
    pub(super) content: Content,
    /// When to plan again for writes that have to wait.
    pub(super) later_at: Option<Instant>,
    /// The kinds whose write failed and is tried later.
    pub(super) retried_later: BTreeSet<Output>,
    pub(super) floor: Floor,
    pub(super) adopted: BTreeMap<Output, Adopted>,
    pub(super) fingerprints: BTreeMap<Output, u64>,
    pub(super) events: Vec<(Severity, &'static str, String)>,
}

impl Plan {
    fn add_bytes(&mut self, object: &Object, stored: usize) {
        let bytes = object.size();
        self.bytes += bytes;
        self.growth += bytes.saturating_sub(stored);
    }

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
    /// The bytes by which its objects may grow.
    free_bytes: usize,
    now: Now,
}

/// Plans the writes for a `DNSResolver`. `free_bytes` are those by which its objects may grow.
pub(super) fn plan(
    state: &State,
    key: &ObjectKey,
    resolver: &Resolver,
    free_bytes: usize,
    now: Now,
) -> Plan {
    let draft = Draft {
        state,
        key,
        resolver,
        free_bytes,
        now,
    };
    draft.plan()
}

impl Draft<'_> {
    fn plan(&self) -> Plan {
        let (state, key, resolver) = (self.state, self.key, self.resolver);
        let floor = floor(state, key, resolver);
        let adopted = state.read_kinds().filter_map(|output| {
            let adopted = adopted(state, key, resolver, output, self.now)?;
            Some((output, adopted))
        });
        let adopted = adopted.collect();
        let mut plan = Plan {
            operations: Vec::new(),
            bytes: 0,
            growth: 0,
            content: self.content(&floor, &adopted),
            later_at: None,
            retried_later: BTreeSet::new(),
            floor,
            adopted,
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
            plan.add_bytes(&object, 0);
            plan.operations.push(Operation::Create(object));
            return true;
        };
        if ours.openness.is_open {
            let note = "a NetworkPolicy with a rule without destinations allowed everything; it allows only the addresses of the names now";
            plan.events
                .push((Severity::Warning, "OpenPolicyClosed", note.to_owned()));
        }
        if plan.adopted.contains_key(&output) && !ours.is_marked {
            let note = format!(
                "took over the {} of another program, and keeps its addresses for a while",
                output.name()
            );
            plan.events.push((Severity::Normal, "Adopted", note));
        }
        object.replacing(ours);
        plan.add_bytes(&object, ours.bytes);
        plan.operations.push(Operation::Replace(object));
        true
    }

    fn content(&self, floor: &Floor, adopted: &BTreeMap<Output, Adopted>) -> Content {
        let (state, key, resolver) = (self.state, self.key, self.resolver);
        let listed = self.listed_names();
        // A policy selects pods of its namespace alone, and a set is for policies of all. A tenant that may write one of
        // them must not put addresses into the other.
        let mut others = BTreeSet::new();
        if let Some(kind) = state.address_object(key, resolver) {
            let of_kind = floor.get(&kind).into_iter().flat_map(ByName::values);
            others.extend(of_kind.flatten());
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
            addresses: state.options.max_addresses,
            bytes: MAX_OBJECT.saturating_sub(taken),
            new_bytes: self.free_bytes,
        };
        let mut present = resolver.planned.present.clone();
        // The plan of another process: its addresses stay at the limit.
        let new = floor
            .keys()
            .filter(|output| !resolver.planned.floor.contains_key(output));
        let ours = new.filter_map(|output| state.own(key, resolver, *output));
        present.extend(ours.flat_map(|it| it.addresses.values().flatten()));
        content(&listed, &others, &present, limits)
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
        let adopted = plan.adopted.get(&output);
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
            annotations: Some(ownership::annotations(adopted)),
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
                let mut content = plan.content.clone();
                self.add_by_name(&plan.floor, adopted, &mut content);
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
            (Output::Set, SetApi::Unknown | SetApi::Missing) => return None,
        })
    }

    /// Adds the addresses that the IPMap had at the start, of unanswered names, and the adopted ones. They stay in the
    /// IPMap alone.
    fn add_by_name(&self, floor: &Floor, adopted: Option<&Adopted>, content: &mut Content) {
        let state = self.state;
        let most = state.options.max_addresses;
        let mut room = most.saturating_sub(content.addresses.len());
        for (place, listed) in self.resolver.request.names.iter().enumerate() {
            let is_answered = listed
                .name
                .as_ref()
                .is_ok_and(|name| state.names.is_answered(name));
            let before = floor.get(&Output::Map).and_then(|it| it.get(&listed.text));
            let before = before.filter(|_| !is_answered);
            let adopted = adopted.and_then(|adopted| adopted.addresses().get(&listed.text));
            let addresses = before.into_iter().chain(adopted).flatten().copied();
            room -= content.add_to_map(place, addresses, room);
        }
    }
}

pub(super) fn precondition(observed: &Observed) -> Precondition {
    Precondition {
        uid: observed.uid.clone(),
        resource_version: observed.version.clone(),
    }
}
