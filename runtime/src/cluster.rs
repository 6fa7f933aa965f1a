//! The API server of a Kubernetes cluster: how it is found, queried and watched.
//!
//! kube's client waits as long as the server asks. A request takes at most 10 s. Errors are one line of text; the client's
//! own log is switched off.

pub mod node;
mod store;
mod watch;

use std::{env, error::Error, time::Duration};

use anyhow::{Context, anyhow};
use futures_util::Stream;
use kube::{Client, Config, api::PostParams, config::KubeConfigOptions};

use crate::{
    UsageError,
    store::{BadObjects, Event, Scope},
};

pub use self::{
    store::KubeStore,
    watch::{KindScope, Object},
};
pub(crate) use self::{store::answer, watch::watch};

/// The time-out of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The time-out of a new connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest silence on a connection; longer than a watch stays silent.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// A Kubernetes cluster. Clones share its connections.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    manager: &'static str,
    bad_objects: BadObjects,
}

impl Cluster {
    /// Finds the cluster of `KUBECONFIG`, or else of the pod of this process, or else of `~/.kube/config`. It makes no
    /// connection, so the API server may be away. Must be called within a tokio runtime.
    ///
    /// `manager` names this process in `managedFields` and in Events.
    ///
    /// # Errors
    /// [`UsageError`]: no configuration names a cluster, or it cannot be used.
    pub async fn find(manager: &'static str) -> anyhow::Result<Self> {
        Self::of(configuration().await?, manager)
    }

    /// The cluster of a configuration, with the time-outs and retries of this module.
    ///
    /// # Errors
    /// The configuration has a value that the client does not support.
    pub fn of(mut config: Config, manager: &'static str) -> anyhow::Result<Self> {
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.read_timeout = Some(READ_TIMEOUT);
        let client = Client::try_from(config).map_err(|error| {
            anyhow!(
                "no client can be made of the Kubernetes configuration: {}",
                in_words(&error)
            )
        })?;
        Ok(Self::with_client(client, manager))
    }

    /// The cluster of a client.
    pub fn with_client(client: Client, manager: &'static str) -> Self {
        Self {
            client,
            manager,
            bad_objects: BadObjects::default(),
        }
    }

    /// The client.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The objects that a watch could not decode.
    pub fn bad_objects(&self) -> BadObjects {
        self.bad_objects.clone()
    }

    /// The parameters of writes: in the name of this process.
    pub(crate) fn post_params(&self) -> PostParams {
        PostParams {
            dry_run: false,
            field_manager: Some(self.manager.to_owned()),
        }
    }

    /// The field manager of writes.
    pub fn manager(&self) -> &'static str {
        self.manager
    }

    /// The objects of a kind in a scope, decoded into a type with only the needed fields. `labels` is a label selector,
    /// such as `app=a`. Like [`crate::store::Store::watch`].
    pub fn watch<K: Object>(
        &self,
        scope: Scope,
        labels: Option<String>,
    ) -> impl Stream<Item = Event<K>> + Send + 'static {
        watch(self.client(), scope, labels, self.bad_objects())
    }

    /// Whether the API server serves a resource, such as `networksets` of `projectcalico.org/v3`.
    ///
    /// # Errors
    /// A text: the API server does not say.
    pub async fn serves(&self, group_version: &str, plural: &str) -> Result<bool, String> {
        match self.client.list_api_group_resources(group_version).await {
            Ok(list) => Ok(list
                .resources
                .iter()
                .any(|resource| resource.name == plural)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
            Err(error) => Err(in_words(&error)),
        }
    }
}

async fn configuration() -> anyhow::Result<Config> {
    let is_set = |name| env::var_os(name).is_some();
    if !is_set("KUBECONFIG") && is_set("KUBERNETES_SERVICE_HOST") {
        let config = Config::incluster();
        return config.context("the pod's service account cannot be used");
    }
    let options = KubeConfigOptions::default();
    Config::from_kubeconfig(&options).await.map_err(|error| {
        let words = in_words(&error);
        UsageError(format!(
            "the kubeconfig cannot be used, and this is not a pod: {words}"
        ))
        .into()
    })
}

/// An error and its causes in one line, without repetitions.
pub fn in_words(error: &(dyn Error + 'static)) -> String {
    let mut words = error.to_string();
    let mut cause = Some(error);
    while let Some(error) = cause {
        let text = error.to_string();
        if !words.contains(&text) {
            words = format!("{words}: {text}");
        }
        if let Some(kube::Error::Api(status)) = error.downcast_ref() {
            // The message has the text; the status fields are for programs.
            words = words.replace(&format!(" ({status:?})"), "");
        }
        cause = error.source();
    }
    words.replace(['\n', '\r'], " ")
}
