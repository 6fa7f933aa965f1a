//! The fields of `/status.json`.

use std::sync::Arc;

use runtime::{
    VERSION,
    admin::Condition,
    inspect::problems::Problems,
    instance::Instance,
    store::{BadObject, ObjectKey},
};
use serde::Serialize;

use crate::facts::{InspectSources, PROGRAM};
use crate::{
    flush::BlockView,
    listen::{Drops, PeerView},
    publish::View,
    rules::{Overview, Source},
};

/// The most namespaces in the status.
const MOST_NAMESPACES: usize = 1_000;

/// The most faults of each namespace. A namespace may have any number of DNSResolvers.
const MOST_FAULTS: usize = 100;

/// The status. Names and texts of rules come from tenants, so a reader must escape them.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    pub program: &'static str,
    pub version: &'static str,
    #[serde(flatten)]
    pub instance: Instance,
    /// The faults that need an administrator, derived from the other fields.
    #[serde(flatten)]
    pub problems: Problems,
    /// The state of the publisher. Of the namespaces at a cap, there are at most 1,000.
    #[serde(flatten)]
    pub view: View,
    /// The conditions of readiness.
    pub conditions: Vec<Condition>,
    /// The objects with rules, by the sources of names.
    pub rules: Vec<RulesStatus>,
    /// Faults of objects with rules, at most 100 of each namespace and kind.
    pub faults: Vec<FaultStatus>,
    /// Objects that cannot be decoded, at most 100 of each kind. Their last known state applies.
    pub bad_objects: Vec<BadObject>,
    /// The server blocks of DNS servers, and whether they are streaming; none without probes
    /// (`--flush-probe 0`).
    pub dns_blocks: Arc<Vec<BlockView>>,
    /// The peers with a dnstap stream.
    pub peers: Vec<PeerView>,
    /// Observations that were dropped since the start of the process.
    pub drops: Drops,
}

/// The objects with rules of one source of names.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RulesStatus {
    pub kind: Source,
    /// Their number, without those that were never decoded.
    pub objects: usize,
    /// Those that cannot be decoded and never could. While there are any, DNSNameResolvers without a
    /// known rule are kept.
    pub unknown: Vec<ObjectKey>,
    /// Why they cannot be read now.
    pub out_of_sync: Option<String>,
}

/// One kind of fault of an object with rules.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FaultStatus {
    pub kind: Source,
    /// `NAMESPACE/NAME`.
    pub object: ObjectKey,
    /// The reason of its Event.
    pub reason: &'static str,
    /// The rules are applied as written: it is no problem.
    pub is_advice: bool,
    pub meaning: &'static str,
    /// The number of rules, names or annotations with the fault.
    pub count: usize,
    /// At most 100 of them.
    pub subjects: Vec<String>,
}

impl Status {
    pub(super) fn new(mut view: View, sources: &InspectSources) -> Self {
        view.namespaces.truncate(MOST_NAMESPACES);
        let overview = sources.rules.overview.borrow();
        let rules = overview.iter().map(|(kind, it)| RulesStatus {
            kind,
            objects: it.objects,
            unknown: it.undecodable.iter().cloned().collect(),
            out_of_sync: it.out_of_sync.clone(),
        });
        Self {
            program: PROGRAM,
            version: VERSION,
            instance: sources.instance.clone(),
            problems: Problems::default(),
            view,
            conditions: sources.health.conditions(),
            rules: rules.collect(),
            faults: overview
                .iter()
                .flat_map(|(kind, it)| faults(kind, it))
                .collect(),
            bad_objects: sources.bad_objects.list(),
            dns_blocks: Arc::clone(&sources.dns.blocks.borrow()),
            peers: sources.connections.view(),
            drops: sources.connections.drops(),
        }
    }
}

fn faults(kind: Source, overview: &Overview) -> Vec<FaultStatus> {
    let all = overview.faults.iter();
    let all = all.flat_map(|(key, faults)| faults.iter().map(move |found| (key, found)));
    let (mut namespace, mut count) = ("", 0);
    let all = all.filter(|(key, _)| {
        if namespace != key.namespace {
            (namespace, count) = (&key.namespace, 0);
        }
        count += 1;
        count <= MOST_FAULTS
    });
    all.map(|(key, (fault, subjects))| FaultStatus {
        kind,
        object: key.clone(),
        reason: fault.reason(),
        is_advice: fault.is_advice(),
        meaning: fault.meaning(),
        count: subjects.count,
        subjects: subjects.listed.iter().cloned().collect(),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::rules::validation::{Fault, Faults};

    #[test]
    fn faults_of_a_namespace_with_many_objects_hide_no_others() {
        let mut one = Faults::default();
        one.add(Fault::NameRefused, "x");
        let key = |namespace: &str, name: usize| ObjectKey {
            namespace: namespace.to_owned(),
            name: name.to_string(),
        };
        let many = (0..1_000).map(|name| key("many", name));
        let all = many.chain([key("few", 0), key("other", 0)]);
        let overview = Overview {
            faults: BTreeMap::from_iter(all.map(|key| (key, one.clone()))),
            ..Overview::default()
        };
        let shown = faults(Source::DnsResolver, &overview);
        let of = |namespace: &str| {
            let of = shown.iter().filter(|it| it.object.namespace == namespace);
            of.count()
        };
        assert_eq!(["few", "many", "other"].map(of), [1, MOST_FAULTS, 1]);
    }
}
