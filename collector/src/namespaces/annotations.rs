//! The annotations of a Namespace that set its quota.

use std::num::{IntErrorKind, NonZeroUsize};

use k8s_openapi::{
    api::core::v1::{Namespace, ObjectReference},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Resource, ResourceExt};
use runtime::inspect::text::quoted;
use serde::{Deserialize, Deserializer};

use super::NamespaceQuota;

const MAX_ADDRESSES: &str = "dnsnameresolver.network.openshift.io/max-addresses";
const MAX_NAMES: &str = "dnsnameresolver.network.openshift.io/max-names";

/// More of an annotation is not kept, in bytes. It is more than an Event quotes.
const MAX_TEXT: usize = 256;

/// What the flags say of quotas, and how far annotations may go.
#[derive(Clone, Copy, Debug)]
pub struct QuotaRules {
    /// Where no annotation says anything.
    pub defaults: NamespaceQuota,
    /// Annotations say no more than this, or than the defaults if these are higher.
    pub ceilings: NamespaceQuota,
}

/// A Namespace.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = Namespace)]
pub struct AnnotatedNamespace {
    #[serde(deserialize_with = "read")]
    metadata: ObjectMeta,
}

/// Name, uid, version and these annotations alone, cut: others may have kilobytes.
fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let metadata = ObjectMeta::deserialize(deserializer)?;
    let mut annotations = metadata.annotations.unwrap_or_default();
    annotations.retain(|key, _| [MAX_ADDRESSES, MAX_NAMES].contains(&key.as_str()));
    for text in annotations.values_mut() {
        text.truncate(text.floor_char_boundary(MAX_TEXT));
    }
    Ok(ObjectMeta {
        name: metadata.name,
        uid: metadata.uid,
        resource_version: metadata.resource_version,
        annotations: (!annotations.is_empty()).then_some(annotations),
        ..ObjectMeta::default()
    })
}

/// What becomes of the annotations of one Namespace.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Outcome {
    /// What the annotations give, if there are any of use.
    pub quota: Option<NamespaceQuota>,
    /// How many are used as they are.
    pub used: usize,
    /// What is wrong with the others.
    pub faults: Vec<AnnotationFault>,
}

/// What is wrong with an annotation of a Namespace.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AnnotationFault {
    /// The reason of an Event.
    pub reason: &'static str,
    /// Its note.
    pub note: String,
}

impl AnnotationFault {
    pub(super) const CLAMPED: &str = "AnnotationClamped";
    pub(super) const IGNORED: &str = "AnnotationIgnored";
}

impl AnnotatedNamespace {
    /// The object, for Events. They stand in the namespace itself, where those who may write in it can read them.
    pub fn about(&self) -> ObjectReference {
        let mut about = self.object_ref(&());
        about.namespace.clone_from(&about.name);
        // The Event is about the object and not about one version of it.
        about.resource_version = None;
        about
    }

    /// The quota that the annotations give, and what is wrong with them.
    pub fn outcome(&self, rules: &QuotaRules) -> Outcome {
        let QuotaRules { defaults, ceilings } = rules;
        let mut outcome = Outcome::default();
        let addresses = outcome.take(
            (MAX_ADDRESSES, self.annotations().get(MAX_ADDRESSES)),
            (defaults.addresses, "--max-addresses-per-namespace"),
            (ceilings.addresses, "--max-addresses-by-annotation"),
        );
        let names = outcome.take(
            (MAX_NAMES, self.annotations().get(MAX_NAMES)),
            (defaults.names, "--max-names-per-namespace"),
            (ceilings.names, "--max-names-by-annotation"),
        );
        if addresses.is_some() || names.is_some() {
            outcome.quota = Some(NamespaceQuota {
                addresses: addresses.unwrap_or(defaults.addresses),
                names: names.unwrap_or(defaults.names),
            });
        }
        outcome
    }
}

impl Outcome {
    /// The number that an annotation gives.
    fn take(
        &mut self,
        (key, text): (&str, Option<&String>),
        (default, default_flag): (usize, &str),
        (ceiling, ceiling_flag): (usize, &str),
    ) -> Option<usize> {
        let (text, ceiling) = (text?, ceiling.max(default));
        let number = match text.parse::<NonZeroUsize>() {
            Ok(number) if number.get() <= ceiling => {
                self.used += 1;
                return Some(number.get());
            }
            Err(error) if *error.kind() != IntErrorKind::PosOverflow => None,
            Ok(_) | Err(_) => Some(ceiling),
        };
        let (reason, note) = match number {
            Some(_) => (
                AnnotationFault::CLAMPED,
                format!(
                    "{key} is above what an administrator allows, and counts as {ceiling} ({ceiling_flag})"
                ),
            ),
            None => (
                AnnotationFault::IGNORED,
                format!(
                    "{key}: {} is no number from 1 on, so that {default} holds ({default_flag})",
                    quoted(text)
                ),
            ),
        };
        self.faults.push(AnnotationFault { reason, note });
        number
    }
}

#[cfg(test)]
pub(super) mod tests;
