//! The programs of a cluster, found by their labels.

use std::time::Duration;

use anyhow::Context;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, api::ListParams};
use proto::{facts::Program, text::printable};
use runtime::{
    UsageError,
    cluster::Cluster,
    inspect::client::{ANSWER_TIMEOUT, Connection},
};
use tokio::time::timeout;

use super::{Route, Target, TargetArgs, Targets};
use crate::PROGRAM;

/// The label of the chart with the program of a pod.
pub(crate) const COMPONENT: &str = "app.kubernetes.io/component";

/// How long the reason of a failed port-forward may take to come, after the failure.
const REASON_TIMEOUT: Duration = Duration::from_millis(500);

/// A cluster, and where the chart is in it.
pub(crate) struct Access {
    pub(crate) client: Client,
    pub(crate) cluster: Cluster,
    pub(crate) namespace: String,
}

impl Access {
    /// Finds the cluster; makes no connection yet.
    ///
    /// # Errors
    /// [`UsageError`]: no cluster is configured, or its configuration cannot be used.
    pub(crate) async fn new(args: &TargetArgs) -> Result<Self, UsageError> {
        let cluster = Cluster::find_context(args.context.as_deref(), PROGRAM).await;
        let cluster = cluster.map_err(|error| {
            UsageError(format!(
                "{error:#}; --collector, --ovn-writer and --policy-writer name programs without a cluster"
            ))
        })?;
        Ok(Self {
            client: cluster.client(),
            cluster,
            namespace: args.release_namespace.clone(),
        })
    }

    /// The pods of all programs.
    ///
    /// # Errors
    /// [`UsageError`]: the API server does not list them, or there are none.
    pub(crate) async fn targets(&self) -> anyhow::Result<Targets> {
        let cannot = |error: &str| {
            UsageError(format!(
                "the pods of namespace {} cannot be listed: {error}",
                self.namespace
            ))
        };
        let params = ListParams::default().labels(&of_chart());
        let pods = self.pods();
        let found = timeout(ANSWER_TIMEOUT, pods.list(&params)).await;
        let found = found.map_err(|_elapsed| cannot("the API server does not answer in time"))?;
        let found = found.map_err(|error| cannot(&error.to_string()))?;
        let targets = self.targets_of(&found.items);
        if targets.all.is_empty() {
            let error = format!(
                "namespace {} has no pod of a collector or a writer: --release-namespace names that of the chart",
                self.namespace
            );
            return Err(UsageError(error).into());
        }
        Ok(targets)
    }

    /// Those of pods that were listed before, without pods that have ended.
    pub(crate) fn targets_of(&self, pods: &[Pod]) -> Targets {
        let api = self.pods();
        let all = Program::ALL.into_iter().flat_map(|kind| {
            let is_of = move |pod: &&Pod| {
                let labels = pod.metadata.labels.as_ref();
                let component = labels.and_then(|labels| labels.get(COMPONENT));
                component.map(String::as_str) == Some(kind.as_str()) && !has_ended(pod)
            };
            pods.iter().filter(is_of).map(move |pod| (kind, pod))
        });
        Targets {
            all: all.map(|(kind, pod)| target(kind, pod, &api)).collect(),
        }
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}

/// The label selector of all programs.
pub(crate) fn of_chart() -> String {
    let kinds = Program::ALL.map(Program::as_str).join(",");
    format!("{COMPONENT} in ({kinds})")
}

/// Whether a pod has ended for good. Evicted pods, and those of a node that was shut down, stay listed.
pub(crate) fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
    matches!(phase, Some("Failed" | "Succeeded"))
}

fn target(kind: Program, pod: &Pod, pods: &Api<Pod>) -> Target {
    let name = pod.metadata.name.clone().unwrap_or_default();
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    Target {
        kind,
        place: match node {
            Some(node) => format!("{name} on node {node}"),
            None => format!("{name} on no node"),
        },
        route: Route::Forward {
            pods: Box::new(pods.clone()),
            pod: name,
        },
    }
}

/// A connection to a port of a pod.
pub(super) struct Forwarded {
    pub(super) connection: Box<dyn Connection>,
    pub(super) failure: Failure,
}

/// Why the node ended a port-forward, if it did.
pub(super) struct Failure(Box<dyn Future<Output = Option<String>> + Send + Unpin>);

impl Failure {
    /// Adds the reason of the node to an error of the connection.
    pub(super) async fn explain<T>(self, answer: anyhow::Result<T>) -> anyhow::Result<T> {
        let Err(error) = answer else { return answer };
        match timeout(REASON_TIMEOUT, self.0).await {
            Ok(Some(reason)) => Err(error.context(printable(reason.trim()))),
            _ => Err(error),
        }
    }
}

/// Connects to a port of a pod on its loopback interface.
///
/// # Errors
/// The API server or the node refuses.
pub(super) async fn forward(pods: &Api<Pod>, pod: &str, port: u16) -> anyhow::Result<Forwarded> {
    let forwarder = pods.portforward(pod, &[port]).await;
    let mut forwarder = forwarder.context("the port-forward is refused")?;
    let connection = forwarder
        .take_stream(port)
        .context("the port-forward has no stream")?;
    let failure = forwarder
        .take_error(port)
        .context("the port-forward has no channel of errors")?;
    Ok(Forwarded {
        connection: Box::new(connection),
        failure: Failure(Box::new(Box::pin(failure))),
    })
}
