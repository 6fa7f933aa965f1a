//! How much each namespace may have: what the flags say, and the annotations of its Namespace.
//!
//! - [`annotations`]: a Namespace → its quota, and what is wrong with its annotations.
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

/// The metrics of namespaces' annotations.
pub const METRICS: &[Metric] = &[ANNOTATIONS];

const ANNOTATIONS: Metric = Metric::gauge(
    "collector_namespace_annotations",
    &[Label::one_of("outcome", &["used", "clamped", "ignored"])],
    "Annotations of Namespaces that set a limit: used as they are, above what the flags allow, or no number",
);
