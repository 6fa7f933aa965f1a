//! The objects that the program writes, and what it keeps of the stored ones.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use k8s_openapi::{
    api::networking::v1::{NetworkPolicy, NetworkPolicySpec},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use proto::api::{IpMap, IpMapData, NetworkSet};
use rapidhash::v3::rapidhash_v3;
use runtime::store::{Kind, Precondition};
use serde::Serialize;

use super::{
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

/// The content of an object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Body {
    /// `spec` of a NetworkPolicy.
    Policy(NetworkPolicySpec),
    /// `spec.nets` of a NetworkSet.
    Set(Vec<String>),
    /// `data` of an IPMap.
    Map(IpMapData),
}

impl Body {
    /// The kind of its object.
    pub fn output(&self) -> Output {
        match self {
            Self::Policy(_) => Output::Policy,
            Self::Set(_) => Output::Set,
            Self::Map(_) => Output::Map,
        }
    }

    /// The single addresses in it, by name if it has names.
    pub fn addresses(&self) -> ByName {
        let single = |all: &[String]| -> BTreeSet<IpAddr> {
            all.iter().filter_map(|it| egress::single(it)).collect()
        };
        match self {
            Self::Policy(spec) => [(String::new(), egress::addresses(spec).collect())].into(),
            Self::Set(nets) => [(String::new(), single(nets))].into(),
            Self::Map(data) => {
                let lists = data.domains.iter();
                lists.map(|it| (it.name.clone(), single(&it.ips))).collect()
            }
        }
    }
}

/// A kind that the program writes. A NetworkSet stands for both of Calico's groups.
pub trait Written: Kind {
    /// Which one it is.
    const OUTPUT: Output;

    /// The content as the program would have written it.
    fn body(&self) -> Body;
}

impl Written for NetworkPolicy {
    const OUTPUT: Output = Output::Policy;

    fn body(&self) -> Body {
        let mut spec = self.spec.clone().unwrap_or_default();
        // The server leaves an empty list out.
        spec.egress.get_or_insert_default();
        spec.ingress = spec.ingress.filter(|rules| !rules.is_empty());
        Body::Policy(spec)
    }
}

impl Written for NetworkSet {
    const OUTPUT: Output = Output::Set;

    fn body(&self) -> Body {
        Body::Set(self.spec.nets.clone())
    }
}

impl Written for IpMap {
    const OUTPUT: Output = Output::Map;

    fn body(&self) -> Body {
        Body::Map(self.data.clone().unwrap_or_default())
    }
}

/// An object to be written.
#[derive(Clone, Debug)]
pub struct Object {
    pub metadata: ObjectMeta,
    pub body: Body,
}

impl Object {
    /// The fingerprint, which is equal for objects that need no write, and the size in bytes.
    pub fn digest(&self) -> (u64, usize) {
        digest(&self.metadata, &self.body)
    }

    /// Lets a write replace only this stored version, and keeps what other programs added.
    pub fn replacing(&mut self, stored: &Observed) {
        let metadata = &mut self.metadata;
        metadata.uid.clone_from(&stored.uid);
        metadata.resource_version.clone_from(&stored.version);
        metadata.finalizers = Some(stored.finalizers.clone()).filter(|it| !it.is_empty());
        let mut annotations = stored.annotations.clone();
        annotations.extend(ownership::annotations());
        metadata.annotations = Some(annotations);
    }
}

/// The first part is equal for objects with the same content, labels, owners, and mark of this program.
fn digest(metadata: &ObjectMeta, body: &Body) -> (u64, usize) {
    let labels = metadata.labels.clone().unwrap_or_default();
    let is_marked = ownership::is_marked(metadata);
    let all = (body, labels, &metadata.owner_references, is_marked);
    // It has no keys but texts, so it can be written as JSON.
    let text = serde_json::to_vec(&all).unwrap_or_default();
    (rapidhash_v3(&text), text.len())
}

/// The kept part of a stored object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    pub uid: Option<String>,
    pub version: Option<String>,
    /// The uid of the `DNSResolver` that is its controller.
    pub controller: Option<String>,
    /// This program has written it.
    pub is_marked: bool,
    /// It has a rule without destinations, which allows everything.
    pub is_open: bool,
    /// It lets some pods reach DNS.
    pub allows_dns: bool,
    /// Equal for objects that need no write. Like the rest, kept only of an object whose controller is a `DNSResolver`.
    pub fingerprint: u64,
    pub addresses: ByName,
    /// Those of other programs.
    pub annotations: BTreeMap<String, String>,
    /// Those of other programs, such as a network plugin. A write without them would remove them.
    pub finalizers: Vec<String>,
}

impl Observed {
    /// Reads a stored object.
    pub fn of<K: Written>(object: &K) -> Self {
        let (metadata, body) = (object.meta(), object.body());
        let mut observed = Self {
            uid: metadata.uid.clone(),
            version: metadata.resource_version.clone(),
            controller: ownership::controller(metadata).map(str::to_owned),
            is_marked: ownership::is_marked(metadata),
            ..Self::default()
        };
        if let Body::Policy(spec) = &body {
            observed.is_open = egress::opens_everything(spec);
            observed.allows_dns = egress::allows_dns(spec);
        }
        if observed.controller.is_some() {
            (observed.fingerprint, _) = digest(metadata, &body);
            observed.addresses = body.addresses();
            observed.annotations = ownership::foreign_annotations(metadata);
            observed.finalizers = metadata.finalizers.clone().unwrap_or_default();
        }
        observed
    }

    /// Whether the other is certainly an older version of the same object.
    pub fn is_newer_than(&self, other: &Self) -> bool {
        let number = |observed: &Self| observed.version.as_ref()?.parse::<u64>().ok();
        let numbers = number(self).zip(number(other));
        self.uid == other.uid && numbers.is_some_and(|(one, other)| one > other)
    }

    /// Lets a deletion remove only this version.
    pub fn precondition(&self) -> Precondition {
        Precondition {
            uid: self.uid.clone(),
            resource_version: self.version.clone(),
        }
    }

    /// Whether it has an address under any name.
    pub fn has(&self, address: IpAddr) -> bool {
        let mut lists = self.addresses.values();
        lists.any(|list| list.contains(&address))
    }
}
