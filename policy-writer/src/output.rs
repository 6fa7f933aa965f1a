//! The objects that the program writes, and what it keeps of the stored ones.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use k8s_openapi::{
    api::networking::v1::NetworkPolicy, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use proto::api::{CrdNetworkSet, IpMap, NetworkSet};
use rapidhash::v3::rapidhash_v3;
use runtime::store::{Kind, ObjectKey};
use serde::Serialize;

use crate::{
    egress,
    ownership::{self, ByName},
};

/// A kind of object that the program writes. Policies come first: they decide what passes.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub enum Output {
    /// A NetworkPolicy.
    #[serde(rename = "NetworkPolicy")]
    Policy,
    /// Calico's NetworkSet.
    #[serde(rename = "NetworkSet")]
    Set,
    /// An IPMap.
    #[serde(rename = "IPMap")]
    Map,
}

impl Output {
    /// All kinds, in the order of writes.
    pub const ALL: [Self; 3] = [Self::Policy, Self::Set, Self::Map];

    /// Its kind in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Policy => "NetworkPolicy",
            Self::Set => "NetworkSet",
            Self::Map => "IPMap",
        }
    }
}

/// An object to be written.
#[derive(Clone, Debug)]
pub enum Object {
    /// A NetworkPolicy.
    Policy(NetworkPolicy),
    /// A NetworkSet of `projectcalico.org/v3`.
    Set(NetworkSet),
    /// A NetworkSet of `crd.projectcalico.org/v1`.
    CrdSet(CrdNetworkSet),
    /// An IPMap.
    Map(IpMap),
}

/// A kind that the program writes.
pub trait Written: Kind {
    /// Which one it is.
    const OUTPUT: Output;

    /// The content as the program would have written it, for comparison.
    fn normal(&self) -> impl Serialize;

    /// The single addresses in it, by name if it has names.
    fn addresses(&self) -> ByName;

    /// Whether it lets everything out, and whether it lets pods reach DNS.
    fn openness(&self) -> Openness {
        Openness::default()
    }
}

/// The destinations that a policy allows beside addresses.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Openness {
    /// A rule without peers allows everything.
    pub is_open: bool,
    /// Some pods may reach DNS.
    pub allows_dns: bool,
}

impl Written for NetworkPolicy {
    const OUTPUT: Output = Output::Policy;

    fn normal(&self) -> impl Serialize {
        let mut spec = self.spec.clone().unwrap_or_default();
        // The server leaves an empty list out.
        spec.egress.get_or_insert_default();
        spec.ingress = spec.ingress.filter(|rules| !rules.is_empty());
        spec
    }

    fn addresses(&self) -> ByName {
        let addresses = self.spec.iter().flat_map(egress::addresses).collect();
        [(String::new(), addresses)].into()
    }

    fn openness(&self) -> Openness {
        let spec = self.spec.as_ref();
        Openness {
            is_open: spec.is_some_and(egress::opens_everything),
            allows_dns: spec.is_some_and(egress::allows_dns),
        }
    }
}

impl Written for NetworkSet {
    const OUTPUT: Output = Output::Set;

    fn normal(&self) -> impl Serialize {
        &self.spec.nets
    }

    fn addresses(&self) -> ByName {
        of_nets(&self.spec.nets)
    }
}

impl Written for CrdNetworkSet {
    const OUTPUT: Output = Output::Set;

    fn normal(&self) -> impl Serialize {
        &self.spec.nets
    }

    fn addresses(&self) -> ByName {
        of_nets(&self.spec.nets)
    }
}

impl Written for IpMap {
    const OUTPUT: Output = Output::Map;

    fn normal(&self) -> impl Serialize {
        &self.data
    }

    fn addresses(&self) -> ByName {
        let lists = self.data.iter().flat_map(|data| &data.domains);
        let single = |list: &proto::api::IpList| {
            list.ips
                .iter()
                .filter_map(|ip| egress::single(ip))
                .collect()
        };
        lists
            .map(|list| (list.name.clone(), single(list)))
            .collect()
    }
}

fn of_nets(nets: &[String]) -> ByName {
    let addresses = nets.iter().filter_map(|net| egress::single(net)).collect();
    [(String::new(), addresses)].into()
}

/// The kept part of a stored object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    pub uid: Option<String>,
    pub version: Option<String>,
    /// The uid of the `DNSResolver` that is its controller.
    pub controller: Option<String>,
    pub is_marked: bool,
    /// Equal for objects that need no write.
    pub fingerprint: u64,
    /// Kept only of an object whose controller is a `DNSResolver`.
    pub addresses: ByName,
    pub openness: Openness,
    /// Those of other programs.
    pub annotations: BTreeMap<String, String>,
    /// Those of other programs, such as a network plugin. A write without them would remove them.
    pub finalizers: Vec<String>,
}

impl Observed {
    /// Reads a stored object.
    pub fn of<K: Written>(object: &K) -> Self {
        let metadata = object.meta();
        let controller = ownership::controller(metadata).map(str::to_owned);
        let is_ours = controller.is_some();
        Self {
            uid: metadata.uid.clone(),
            version: metadata.resource_version.clone(),
            is_marked: ownership::is_marked(metadata),
            fingerprint: if is_ours { fingerprint(object) } else { 0 },
            addresses: if is_ours {
                object.addresses()
            } else {
                ByName::new()
            },
            openness: object.openness(),
            annotations: if is_ours {
                ownership::foreign_annotations(metadata)
            } else {
                BTreeMap::new()
            },
            finalizers: match (is_ours, &metadata.finalizers) {
                (true, Some(finalizers)) => finalizers.clone(),
                _ => Vec::new(),
            },
            controller,
        }
    }

    /// Whether the other is certainly an older version of the same object.
    pub fn is_newer_than(&self, other: &Self) -> bool {
        let number = |observed: &Self| observed.version.as_ref()?.parse::<u64>().ok();
        let numbers = number(self).zip(number(other));
        self.uid == other.uid && numbers.is_some_and(|(one, other)| one > other)
    }

    /// Whether both are the same version of the same object.
    pub fn is_version_of(&self, other: &Self) -> bool {
        (&self.uid, &self.version) == (&other.uid, &other.version)
    }
}

/// Equal for objects with the same content, labels, owners, and annotations of this program.
pub fn fingerprint<K: Written>(object: &K) -> u64 {
    rapidhash_v3(&content(object))
}

fn content<K: Written>(object: &K) -> Vec<u8> {
    let ObjectMeta {
        labels,
        owner_references,
        ..
    } = object.meta();
    let labels = labels.clone().unwrap_or_default();
    let is_marked = ownership::is_marked(object.meta());
    let told = (object.normal(), labels, owner_references, is_marked);
    // It has no keys but texts, so it can be written as JSON.
    serde_json::to_vec(&told).unwrap_or_default()
}

impl Object {
    /// Its kind.
    pub fn output(&self) -> Output {
        match self {
            Self::Policy(_) => Output::Policy,
            Self::Set(_) | Self::CrdSet(_) => Output::Set,
            Self::Map(_) => Output::Map,
        }
    }

    /// Equal for objects that need no write.
    pub fn fingerprint(&self) -> u64 {
        match self {
            Self::Policy(object) => fingerprint(object),
            Self::Set(object) => fingerprint(object),
            Self::CrdSet(object) => fingerprint(object),
            Self::Map(object) => fingerprint(object),
        }
    }

    /// The size of its JSON.
    pub fn size(&self) -> usize {
        let size = |text: Result<Vec<u8>, _>| text.map_or(0, |text| text.len());
        match self {
            Self::Policy(object) => size(serde_json::to_vec(object)),
            Self::Set(object) => size(serde_json::to_vec(object)),
            Self::CrdSet(object) => size(serde_json::to_vec(object)),
            Self::Map(object) => size(serde_json::to_vec(object)),
        }
    }

    /// Its metadata.
    pub fn metadata_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Self::Policy(object) => &mut object.metadata,
            Self::Set(object) => &mut object.metadata,
            Self::CrdSet(object) => &mut object.metadata,
            Self::Map(object) => &mut object.metadata,
        }
    }

    /// Lets a write replace only this stored version.
    pub fn replacing(&mut self, observed: &Observed) {
        let metadata = self.metadata_mut();
        metadata.uid.clone_from(&observed.uid);
        metadata.resource_version.clone_from(&observed.version);
        metadata.finalizers = Some(observed.finalizers.clone()).filter(|it| !it.is_empty());
        let annotations = metadata.annotations.get_or_insert_default();
        for (key, value) in &observed.annotations {
            annotations
                .entry(key.clone())
                .or_insert_with(|| value.clone());
        }
    }
}

/// The stored objects of one kind.
#[derive(Debug, Default)]
pub struct Outputs {
    objects: BTreeMap<ObjectKey, Observed>,
    unreadable: BTreeSet<ObjectKey>,
    /// How many policies of a namespace let pods reach DNS; without the namespaces that have none.
    allowing_dns: HashMap<String, usize>,
    /// Whether they were listed once.
    pub has_been_read: bool,
    /// Whether the store said that they cannot be read now.
    pub is_out_of_sync: bool,
}

impl Outputs {
    /// The object of this key.
    pub fn get(&self, key: &ObjectKey) -> Option<&Observed> {
        self.objects.get(key)
    }

    /// Whether an object of this key exists that does not decode.
    pub fn is_unreadable(&self, key: &ObjectKey) -> bool {
        covers(&self.unreadable, key)
    }

    /// Whether a policy of the namespace lets pods reach DNS.
    pub fn allows_dns(&self, namespace: &str) -> bool {
        self.allowing_dns.contains_key(namespace)
    }

    /// All keys with their objects.
    pub fn all(&self) -> impl Iterator<Item = (&ObjectKey, &Observed)> {
        self.objects.iter()
    }

    /// Takes in an object of an event, unless the known one is a newer version of it. Returns whether something changed.
    pub fn put(&mut self, key: ObjectKey, observed: Observed) -> bool {
        let known = self.objects.get(&key);
        if known.is_some_and(|known| known.is_newer_than(&observed)) {
            return false;
        }
        self.replace(key, observed)
    }

    /// Takes in an object of a list, or one that was just read or written. After a restore of etcd its version may be
    /// lower than the known one. Returns whether something changed.
    pub fn replace(&mut self, key: ObjectKey, observed: Observed) -> bool {
        if self.objects.get(&key) == Some(&observed) {
            return false;
        }
        self.remove(&key);
        if observed.openness.allows_dns {
            *self.allowing_dns.entry(key.namespace.clone()).or_default() += 1;
        }
        self.objects.insert(key, observed);
        true
    }

    /// Removes an object, and returns it.
    pub fn remove(&mut self, key: &ObjectKey) -> Option<Observed> {
        let removed = self.objects.remove(key)?;
        if removed.openness.allows_dns
            && let Some(count) = self.allowing_dns.get_mut(&key.namespace)
        {
            *count -= 1;
            if *count == 0 {
                self.allowing_dns.remove(&key.namespace);
            }
        }
        Some(removed)
    }

    /// The keys of objects that are neither listed nor unreadable.
    pub fn missing(&self, listed: &BTreeSet<ObjectKey>) -> Vec<ObjectKey> {
        let is_there = |key: &ObjectKey| listed.contains(key) || self.is_unreadable(key);
        self.objects
            .keys()
            .filter(|key| !is_there(key))
            .cloned()
            .collect()
    }

    /// Records which objects do not decode.
    pub fn set_unreadable(&mut self, keys: &BTreeSet<ObjectKey>) {
        self.unreadable.clone_from(keys);
    }
}

/// Whether the object is among those that exist but cannot be read, alone or with its whole namespace.
pub fn covers(unreadable: &BTreeSet<ObjectKey>, key: &ObjectKey) -> bool {
    unreadable.contains(key)
        || (!unreadable.is_empty() && unreadable.contains(&ObjectKey::all_in(&key.namespace)))
}
