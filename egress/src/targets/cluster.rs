//! The programs of a cluster, found by their labels.

use std::{env, error::Error, time::Duration};

use anyhow::{Context, anyhow};
use kube::{
    Api, Client, Config,
    api::ListParams,
    client::ClientBuilder,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use proto::{facts::Program, text::printable};
use runtime::{UsageError, cluster::in_words, inspect::client::Connection};
use tokio::time::timeout;
use tower::timeout::TimeoutLayer;

use super::{AccessArgs, Route, Target, Targets};
use crate::objects::Pod;

/// The label of the chart with the program of a pod.
pub(crate) const COMPONENT: &str = "app.kubernetes.io/component";

/// How long the reason of a failed port-forward may take to come, after the failure.
const REASON_TIMEOUT: Duration = Duration::from_millis(500);

/// A cluster, and where the chart is in it.
pub(crate) struct Access {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    /// The URL of the API server, and where it comes from.
    pub(crate) server: String,
    pub(crate) timeout: Duration,
}

impl Access {
    /// Finds the cluster; makes no connection yet.
    ///
    /// # Errors
    /// [`UsageError`]: no cluster is configured, or its configuration cannot be used.
    pub(crate) async fn new(args: &AccessArgs) -> Result<Self, UsageError> {
        let found = configuration(args).await.and_then(|(config, server)| {
            let client = ClientBuilder::try_from(config)?;
            let in_time = TimeoutLayer::new(args.request_timeout);
            Ok((client.with_layer(&in_time).build(), server))
        });
        let (client, server) = found.map_err(|error| {
            UsageError(format!(
                "{error:#}; --collector, --ovn-writer and --policy-writer name programs without a cluster"
            ))
        })?;
        Ok(Self {
            client,
            namespace: args.release_namespace.clone(),
            server,
            timeout: args.request_timeout,
        })
    }

    /// Why a request had no answer of the API server, and what to try.
    pub(crate) fn unreachable(&self, cause: &str) -> String {
        let server = &self.server;
        format!("cannot reach {server}: {cause}; try: kubectl get --raw /readyz")
    }

    /// The pods of all programs that have not ended, at least one.
    ///
    /// # Errors
    /// The API server does not list them, or there are none.
    pub(crate) async fn chart_pods(&self) -> Result<Vec<Pod>, UsageError> {
        let (server, namespace) = (&self.server, &self.namespace);
        let params = ListParams::default().labels(&of_chart());
        let found = self.pods().list(&params).await;
        let found = found.map_err(|error| match &error {
            kube::Error::Api(status) => UsageError(format!(
                "{server} refuses to list the pods of namespace {namespace}: {}; try: kubectl -n {namespace} auth can-i list pods",
                status.message
            )),
            _ => UsageError(self.unreachable(&root_cause(&error))),
        })?;
        let mut pods = found.items;
        pods.retain(|pod| !has_ended(pod));
        if pods.is_empty() {
            return Err(UsageError(format!(
                "namespace {namespace} has no pod of a collector or a writer: --release-namespace names that of the chart"
            )));
        }
        Ok(pods)
    }

    /// The running programs.
    ///
    /// # Errors
    /// As for [`Access::chart_pods`].
    pub(crate) async fn targets(&self) -> Result<Targets, UsageError> {
        Ok(self.targets_of(&self.chart_pods().await?))
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
            all: all
                .map(|(kind, pod)| target(kind, pod, &api, self.timeout))
                .collect(),
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
    matches!(pod.status.phase.as_deref(), Some("Failed" | "Succeeded"))
}

/// The last cause of an error, such as that a connection is refused.
pub(crate) fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// The cluster of the flags, or as kubectl finds it; and its API server in words.
async fn configuration(args: &AccessArgs) -> anyhow::Result<(Config, String)> {
    let is_set = |name| env::var_os(name).is_some();
    let has_flag = args.kubeconfig.is_some() || args.context.is_some();
    if !has_flag && !is_set("KUBECONFIG") && is_set("KUBERNETES_SERVICE_HOST") {
        let config = Config::incluster().context("the pod's service account cannot be used")?;
        let server = format!("{} (this pod's service account)", config.cluster_url);
        return Ok((config, server));
    }
    let cannot =
        |error: KubeconfigError| anyhow!("the kubeconfig cannot be used: {}", in_words(&error));
    let kubeconfig = match &args.kubeconfig {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    let kubeconfig = kubeconfig.map_err(cannot)?;
    let context = args.context.clone().or(kubeconfig.current_context.clone());
    let context = context.unwrap_or_default();
    let options = KubeConfigOptions {
        context: args.context.clone(),
        ..KubeConfigOptions::default()
    };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let config = config.map_err(cannot)?;
    let server = format!("{} (context {context})", config.cluster_url);
    Ok((config, server))
}

fn target(kind: Program, pod: &Pod, pods: &Api<Pod>, timeout: Duration) -> Target {
    let name = pod.metadata.name.clone().unwrap_or_default();
    Target {
        kind,
        place: match &pod.spec.node_name {
            Some(node) => format!("{name} on node {node}"),
            None => format!("{name} on no node"),
        },
        route: Route::Forward {
            pods: Box::new(pods.clone()),
            pod: name,
        },
        timeout,
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
    let mut forwarder =
        forwarder.map_err(|error| anyhow!("the port-forward is refused: {}", in_words(&error)))?;
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
