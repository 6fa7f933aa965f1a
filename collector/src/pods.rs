//! Pods that bypass the cluster's DNS, in namespaces with rules by name: their answers are not seen, so that the names of their rules
//! may have other addresses for them. Seen, told to the authors of the rules, and asked only as far as an administrator trusts them: a
//! pod's author must not choose who answers for everybody's rules.
//!
//! - [`pod`]: a Pod, as far as its DNS goes; [`resolv_conf`]: what the kubelet makes of that.
//! - [`table`]: what is known of them. No IO.
//! - `watches`: the watches of pods, by namespace or of all namespaces. Only the replica that leads has any.
//! - [`task`]: what comes of them, and what is told.

pub mod pod;
pub mod resolv_conf;
pub mod table;
pub mod task;
mod watches;

use runtime::metrics::{Label, Metric};

pub use self::{
    table::{PodView, PodsView, Whose},
    task::{Config, Inputs, Outputs, run},
};

/// The metrics of pods.
pub const METRICS: &[Metric] = &[BYPASSING];

const BYPASSING: Metric = Metric::gauge(
    "collector_bypassing_pods",
    &[Label::one_of("name_servers", Whose::WORDS)],
    "Pods in namespaces with rules by name that ask name servers that are not the cluster's, by whose they are; only the replica that \
     leads shows it",
);
