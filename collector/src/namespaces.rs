//! The quotas of namespaces, by flags and by the annotations of a Namespace.
//!
//! - [`annotations`]: a Namespace → its quota, and the faults of its annotations.
//! - [`quotas`]: the quotas as the controller reads them.
//! - [`task`]: the watch of Namespaces, and the Events about them.

pub mod annotations;
pub mod quotas;
pub mod task;

use runtime::metrics::{Label, Metric};

pub use self::{
    annotations::QuotaRules,
    quotas::{NamespaceQuota, NamespaceQuotas},
    task::run,
};

pub const METRICS: &[Metric] = &[ANNOTATIONS];

const ANNOTATIONS: Metric = Metric::gauge(
    "egress_collector_namespace_annotations",
    &[Label::one_of("outcome", &["used", "clamped", "ignored"])],
    "Annotations of Namespaces that set a limit. `used`: it counts. `clamped`: it is above the maximum of the flags, which counts \
     instead. `ignored`: it is not a number from 1 on",
);
