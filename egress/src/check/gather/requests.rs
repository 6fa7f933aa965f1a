//! Requests to the API server.

use std::fmt::Debug;

use kube::{Api, Client, Error, api::ListParams};
use serde::de::DeserializeOwned;
use tower::timeout::error::Elapsed;

use crate::{
    check::seen::{Seen, Unseen},
    targets::root_cause,
};

/// The answer to a question; `None` if the server does not know the thing.
async fn asked<T>(answer: impl Future<Output = Result<T, Error>>) -> Seen<Option<T>> {
    match answer.await {
        Ok(answer) => Ok(Some(answer)),
        Err(Error::Api(status)) if status.code == 404 => Ok(None),
        Err(Error::Api(status)) if status.code == 429 || status.code >= 500 => {
            Err(Unseen::failure(&status.message))
        }
        Err(Error::Api(status)) => Err(Unseen(status.message.clone())),
        Err(error) if is_elapsed(&error) => Err(Unseen::failure("no answer in time")),
        Err(error) => Err(Unseen(root_cause(&error))),
    }
}

/// Whether the time of `--request-timeout` is over.
fn is_elapsed(error: &Error) -> bool {
    matches!(error, Error::Service(cause) if cause.is::<Elapsed>())
}

pub(super) async fn version(client: &Client) -> Seen<String> {
    let version = asked(client.apiserver_version()).await?;
    version
        .map(|version| version.git_version)
        .ok_or_else(|| Unseen("the server has no /version: it is no API server".to_owned()))
}

pub(crate) async fn list<K>(api: Api<K>, labels: &str) -> Seen<Vec<K>>
where
    K: Clone + Debug + DeserializeOwned,
{
    let params = ListParams::default().labels(labels);
    let list = asked(api.list(&params)).await?;
    Ok(list.map_or(Vec::new(), |list| list.items))
}

pub(crate) async fn find<K>(api: Api<K>, name: &str) -> Seen<Option<K>>
where
    K: Clone + Debug + DeserializeOwned,
{
    asked(api.get(name)).await
}
