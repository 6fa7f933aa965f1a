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

/// The most bytes of an annotation that are kept: more than an Event quotes.
const MAX_TEXT: usize = 256;

/// The default quota, and the ceilings of annotations.
#[derive(Clone, Copy, Debug)]
pub struct QuotaRules {
    /// Without annotations.
    pub defaults: NamespaceQuota,
    /// The largest values of annotations, if the defaults are not larger.
    pub ceilings: NamespaceQuota,
}

/// A Namespace.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = Namespace)]
pub struct AnnotatedNamespace {
    #[serde(deserialize_with = "read")]
    metadata: ObjectMeta,
}

/// Keeps name, UID, version and these annotations, truncated: other annotations may have kilobytes.
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

/// The evaluated annotations of one Namespace.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct EvaluatedAnnotations {
    /// The quota, if a valid annotation sets one.
    pub quota: Option<NamespaceQuota>,
    /// The number of annotations used as they are.
    pub used: usize,
    /// The faults of the others.
    pub faults: Vec<AnnotationFault>,
}

/// A fault of an annotation of a Namespace.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AnnotationFault {
    /// The reason of the Event.
    pub reason: &'static str,
    pub note: String,
}

impl AnnotationFault {
    pub(super) const CLAMPED: &str = "AnnotationClamped";
    pub(super) const IGNORED: &str = "AnnotationIgnored";
}

impl AnnotatedNamespace {
    /// The object for Events. They are in the namespace itself, where its users can read them.
    pub fn about(&self) -> ObjectReference {
        let mut about = self.object_ref(&());
        about.namespace.clone_from(&about.name);
        // The Event is about the object, not about one of its versions.
        about.resource_version = None;
        about
    }

    /// The quota by the annotations, and their faults.
    pub fn outcome(&self, rules: &QuotaRules) -> EvaluatedAnnotations {
        let QuotaRules { defaults, ceilings } = rules;
        let mut outcome = EvaluatedAnnotations::default();
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

impl EvaluatedAnnotations {
    /// The number in an annotation.
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
                    "{key} is above the administrator's maximum, and counts as {ceiling} ({ceiling_flag})"
                ),
            ),
            None => (
                AnnotationFault::IGNORED,
                format!(
                    "{key}: {} is not a number of at least 1, so {default} applies ({default_flag})",
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
