//! The annotations of a Namespace that set its quota.

use std::num::{IntErrorKind, NonZeroUsize};

use k8s_openapi::{
    api::core::v1::{Namespace, ObjectReference},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::Resource;
use runtime::inspect::text::quoted;
use serde::Deserialize;

use super::NamespaceQuota;

const MAX_ADDRESSES: &str = "dnsnameresolver.network.openshift.io/max-addresses";
const MAX_NAMES: &str = "dnsnameresolver.network.openshift.io/max-names";

/// What the flags say of quotas, and how far annotations may go.
#[derive(Clone, Copy, Debug)]
pub struct QuotaRules {
    /// Where no annotation says anything.
    pub defaults: NamespaceQuota,
    /// Annotations say no more than this, or than the defaults if these are higher.
    pub ceilings: NamespaceQuota,
}

/// A Namespace, of which nothing but these annotations is kept: others may have kilobytes.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = Namespace)]
#[serde(from = "Read")]
pub struct AnnotatedNamespace {
    /// Name, uid and version alone.
    metadata: ObjectMeta,
    max_addresses: Option<Said>,
    max_names: Option<Said>,
}

/// What an annotation says.
#[derive(Clone, Debug)]
enum Said {
    /// A number, or the largest there is for one that is larger.
    Number(usize),
    /// Something else, cut and quoted.
    Other(Box<str>),
}

#[derive(Deserialize)]
struct Read {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    #[serde(default)]
    annotations: Option<Annotations>,
}

#[derive(Default, Deserialize)]
struct Annotations {
    #[serde(rename = "dnsnameresolver.network.openshift.io/max-addresses")]
    max_addresses: Option<String>,
    #[serde(rename = "dnsnameresolver.network.openshift.io/max-names")]
    max_names: Option<String>,
}

impl From<Read> for AnnotatedNamespace {
    fn from(Read { metadata }: Read) -> Self {
        let annotations = metadata.annotations.unwrap_or_default();
        let said = |text: Option<String>| text.as_deref().map(Said::of);
        Self {
            metadata: ObjectMeta {
                name: metadata.name,
                uid: metadata.uid,
                resource_version: metadata.resource_version,
                ..ObjectMeta::default()
            },
            max_addresses: said(annotations.max_addresses),
            max_names: said(annotations.max_names),
        }
    }
}

impl Said {
    fn of(text: &str) -> Self {
        match text.parse::<NonZeroUsize>() {
            Ok(number) => Self::Number(number.get()),
            Err(error) if *error.kind() == IntErrorKind::PosOverflow => Self::Number(usize::MAX),
            Err(_) => Self::Other(quoted(text).into()),
        }
    }
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
            self.max_addresses.as_ref(),
            MAX_ADDRESSES,
            (defaults.addresses, "--max-addresses-per-namespace"),
            (ceilings.addresses, "--max-addresses-by-annotation"),
        );
        let names = outcome.take(
            self.max_names.as_ref(),
            MAX_NAMES,
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
        said: Option<&Said>,
        key: &str,
        (default, default_flag): (usize, &str),
        (ceiling, ceiling_flag): (usize, &str),
    ) -> Option<usize> {
        let ceiling = ceiling.max(default);
        let (reason, note, number) = match said? {
            Said::Number(number) if *number <= ceiling => {
                self.used += 1;
                return Some(*number);
            }
            Said::Number(_) => (
                AnnotationFault::CLAMPED,
                format!(
                    "{key} is above what an administrator allows, and counts as {ceiling} ({ceiling_flag})"
                ),
                Some(ceiling),
            ),
            Said::Other(text) => (
                AnnotationFault::IGNORED,
                format!(
                    "{key}: {text} is no number from 1 on, so that {default} holds ({default_flag})"
                ),
                None,
            ),
        };
        self.faults.push(AnnotationFault { reason, note });
        number
    }
}

#[cfg(test)]
pub(super) mod tests;
