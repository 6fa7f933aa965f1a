//! Pods that bypass the cluster's DNS, in namespaces with rules by name. The collector does not
//! receive their answers, so a name of a rule may have other addresses for them. It reports such
//! pods to the authors of the rules. It queries their name servers only as far as an administrator
//! trusts them. Otherwise the author of a pod could choose the answers for the rules of all
//! tenants.
//!
//! - [`pod`]: the DNS settings of a Pod. [`resolv_conf`]: the kubelet's result of them.
//! - [`table`]: the state of all pods. No IO.
//! - `watches`: the watches of pods, by namespace or of all namespaces. Only the leader has any.
//! - [`task`]: the task that runs them, and reports.

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

pub const METRICS: &[Metric] = &[BYPASSING];

const BYPASSING: Metric = Metric::gauge(
    "egress_collector_bypassing_pods",
    &[Label::one_of("name_servers", Whose::WORDS)],
    "Pods in namespaces with rules by name that use other name servers than the cluster's, by kind of server. `trusted`: the collector \
     queries them, too (`--trusted-nameserver`). `node`: those of the node (`dnsPolicy: Default`). `foreign`: all others. The collector does \
     not see the answers of the last two. Only the leader shows it",
);
