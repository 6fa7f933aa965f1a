//! The API server of a Kubernetes cluster: how it is found, queried and watched.
//!
//! A request is tried once, with a time-out of 10 s: callers know best when to retry. Errors are one line of text; the
//! client's own log is switched off.

mod answer;
mod guarded;
mod store;
mod watch;

use std::{env, error::Error, time::Duration};

use bytes::Bytes;
use futures_util::Stream;
use kube::{
    Client, Config,
    client::Body,
    config::{KubeConfigOptions, Kubeconfig},
    core::{Request, request},
};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::store::{BadObjects, Event, ObjectKey, Scope};

pub(crate) use self::{
    answer::ApiError,
    watch::{Watching, watch},
};
pub use self::{store::KubeStore, watch::Object};

/// A request, or why it could not be built.
pub(crate) type Prepared = Result<http::Request<Vec<u8>>, request::Error>;

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

/// Why there is no client of a cluster.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ConnectError {
    /// No configuration names a cluster.
    #[error(
        "no Kubernetes cluster is known: KUBECONFIG is not set, there is no ~/.kube/config, and this is not a pod"
    )]
    Unknown,
    /// The kubeconfig cannot be used, for this reason.
    #[error("the kubeconfig cannot be used: {0}")]
    Kubeconfig(String),
    /// The service account of this pod cannot be used, for this reason.
    #[error("the pod's service account cannot be used: {0}")]
    InCluster(String),
    /// The configuration has a value that the client does not support.
    #[error("the Kubernetes configuration cannot be used: {0}")]
    Client(String),
}

/// Decodes the body of an answer.
pub(crate) fn decoded<T: DeserializeOwned>(body: Bytes) -> Result<T, ApiError> {
    serde_json::from_slice(&body).map_err(|error| ApiError::Undecodable(error.to_string()))
}

impl Cluster {
    /// Finds the cluster of `KUBECONFIG`, or else of the pod of this process, or else of `~/.kube/config`. It makes no
    /// connection, so the API server may be away. Must be called within a tokio runtime.
    ///
    /// `manager` names this process in `managedFields` and in Events.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub async fn find(manager: &'static str) -> Result<Self, ConnectError> {
        Self::of(configuration().await?, manager)
    }

    /// The cluster of a configuration, with the time-outs and retries of this module.
    ///
    /// # Errors
    /// [`ConnectError::Client`].
    pub fn of(mut config: Config, manager: &'static str) -> Result<Self, ConnectError> {
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.read_timeout = Some(READ_TIMEOUT);
        config.default_retry = false;
        let client = Client::try_from(config).map_err(|e| ConnectError::Client(in_words(&e)))?;
        Ok(Self::with_client(client, manager))
    }

    pub(crate) fn with_client(client: Client, manager: &'static str) -> Self {
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

    /// The field manager of writes.
    pub fn manager(&self) -> &'static str {
        self.manager
    }

    /// Sends a request once, and decodes the answer.
    pub(crate) async fn send<T: DeserializeOwned>(&self, request: Prepared) -> Result<T, ApiError> {
        self.send_for_bytes(request).await.and_then(decoded)
    }

    /// Sends a request once, and does not decode a successful answer.
    pub(crate) async fn send_for_bytes(&self, request: Prepared) -> Result<Bytes, ApiError> {
        let request = request.map_err(|error| ApiError::Invalid(in_words(&error)))?;
        let answer = async {
            let answer = self.client.send(request.map(Body::from)).await?;
            let status = answer.status();
            let headers = answer.headers().clone();
            Ok((status, headers, answer.into_body().collect_bytes().await?))
        };
        match timeout(REQUEST_TIMEOUT, answer).await {
            Ok(Ok((status, _, body))) if status.is_success() => Ok(body),
            Ok(Ok((status, headers, body))) => Err(ApiError::of(status.as_u16(), &headers, &body)),
            Ok(Err(error)) => {
                let error: kube::Error = error;
                Err(ApiError::unavailable(in_words(&error)))
            }
            Err(_) => Err(ApiError::unavailable(format!(
                "no answer within {REQUEST_TIMEOUT:?}"
            ))),
        }
    }

    /// One object by name and its changes, without end, like [`crate::store::Store::watch`]. It needs a role with
    /// `list` and `watch` that may name the object.
    pub fn watch_one<K: Object>(
        &self,
        key: &ObjectKey,
    ) -> impl Stream<Item = Event<K>> + Send + 'static {
        watch(self.client(), Watching::one(key), self.bad_objects())
    }

    /// The Pods that have not ended, decoded into a type with only the needed fields. Like [`Cluster::watch_one`].
    pub fn watch_running<K: Object>(
        &self,
        scope: Scope,
    ) -> impl Stream<Item = Event<K>> + Send + 'static {
        watch(self.client(), Watching::running(scope), self.bad_objects())
    }

    /// All objects of a kind, in all namespaces or cluster-wide, decoded into a type with only the needed fields. Like
    /// [`Cluster::watch_one`].
    pub fn watch_all<K: Object>(&self) -> impl Stream<Item = Event<K>> + Send + 'static {
        let watching = Watching::of(Scope::All);
        watch(self.client(), watching, self.bad_objects())
    }

    /// Requests for objects of a kind in a namespace.
    pub(crate) fn requests<K: Object>(namespace: &str) -> Request {
        Request::new(K::url_path(&(), Some(namespace)))
    }
}

async fn configuration() -> Result<Config, ConnectError> {
    let options = KubeConfigOptions::default();
    let in_words =
        |error: kube::config::KubeconfigError| ConnectError::Kubeconfig(in_words(&error));
    if let Some(kubeconfig) = Kubeconfig::from_env().map_err(in_words)? {
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        return config.map_err(in_words);
    }
    if env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        return Config::incluster().map_err(|e| ConnectError::InCluster(self::in_words(&e)));
    }
    let path = env::home_dir().map(|home| home.join(".kube/config"));
    let path = path.filter(|path| path.exists());
    let kubeconfig = Kubeconfig::read_from(path.ok_or(ConnectError::Unknown)?).map_err(in_words)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    config.map_err(in_words)
}

/// An error and its causes in one line, without repetitions.
pub(crate) fn in_words(error: &(dyn Error + 'static)) -> String {
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
