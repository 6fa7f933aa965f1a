//! Whose an object is: the controller by uid, and the mark of this program.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;
use proto::api::DnsResolver;

/// Addresses by the text of a name; without a name in a policy or a set.
pub type ByName = BTreeMap<String, BTreeSet<IpAddr>>;

/// The annotation of every object that this program has written.
const MARK: &str = "dnsnameresolver.network.openshift.io/written-by";

/// The value of [`MARK`].
const PROGRAM: &str = crate::PROGRAM;

/// The reference that makes a `DNSResolver` the controller of an object.
pub(super) fn controller_reference(name: &str, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: DnsResolver::api_version(&()).into_owned(),
        kind: DnsResolver::kind(&()).into_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// The uid of the `DNSResolver` that is the controller of an object.
pub(super) fn controller(metadata: &ObjectMeta) -> Option<&str> {
    let mut owners = metadata.owner_references.iter().flatten();
    let owner = owners.find(|owner| owner.controller == Some(true))?;
    let group = owner.api_version.split_once('/').map(|(group, _)| group);
    let is_resolver =
        group == Some(&*DnsResolver::group(&())) && owner.kind == DnsResolver::kind(&());
    is_resolver.then_some(owner.uid.as_str())
}

/// Whether this program has written the object.
pub(super) fn is_marked(metadata: &ObjectMeta) -> bool {
    let annotations = metadata.annotations.as_ref();
    annotations
        .and_then(|all| all.get(MARK))
        .is_some_and(|value| value == PROGRAM)
}

/// The most bytes of other programs' annotations on an object. They are kept in memory.
const MOST_FOREIGN: usize = 16 << 10;

/// The annotations of other programs; none if they are very large.
pub(super) fn foreign_annotations(metadata: &ObjectMeta) -> BTreeMap<String, String> {
    let foreign = || {
        let all = metadata.annotations.iter().flatten();
        all.filter(|(key, _)| key.as_str() != MARK)
    };
    let bytes: usize = foreign().map(|(key, value)| key.len() + value.len()).sum();
    let kept = foreign().filter(|_| bytes <= MOST_FOREIGN);
    kept.map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// The annotations of this program.
pub(super) fn annotations() -> BTreeMap<String, String> {
    BTreeMap::from([(MARK.to_owned(), PROGRAM.to_owned())])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(owner: OwnerReference) -> ObjectMeta {
        ObjectMeta {
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn only_a_resolver_that_is_the_controller_owns_an_object() {
        let owner = controller_reference("a", "u1");
        assert_eq!(controller(&metadata(owner.clone())), Some("u1"));
        let other_version = OwnerReference {
            api_version: "dns.k8s.delta10.nl/v1".to_owned(),
            ..owner.clone()
        };
        assert_eq!(controller(&metadata(other_version)), Some("u1"));
        for forged in [
            OwnerReference {
                controller: None,
                ..owner.clone()
            },
            OwnerReference {
                kind: "ConfigMap".to_owned(),
                ..owner.clone()
            },
            OwnerReference {
                api_version: "v1".to_owned(),
                ..owner
            },
        ] {
            assert_eq!(controller(&metadata(forged)), None);
        }
    }
}
