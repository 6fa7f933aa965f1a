//! `/names.json`: names with their addresses.

use std::sync::Arc;

use axum::{
    extract::{RawQuery, State},
    response::{IntoResponse, Response},
};
use proto::facts::NameList;
use runtime::inspect::{QueryError, busy, json, list_after, query};
use tokio::{sync::oneshot, time::timeout};

use crate::facts::{ANSWER_DEADLINE, Inspector, PROGRAM};
use crate::publish::{InspectRequest, NamesQuery};

/// The most addresses for each name; further ones are counted.
const MOST_ADDRESSES: usize = 1_000;

pub(super) async fn in_json(
    State(inspector): State<Arc<Inspector>>,
    RawQuery(asked): RawQuery,
) -> Response {
    let query = match names_query(asked.as_deref()) {
        Ok(query) => query,
        Err(error) => return error.into_response(),
    };
    match inspector.names(query).await {
        Some(listing) => json(&listing),
        None => busy(PROGRAM),
    }
}

fn names_query(asked: Option<&str>) -> Result<NamesQuery, QueryError> {
    let [filter, namespace, after] = query(asked, ["filter", "namespace", "after"])?;
    Ok(NamesQuery {
        filter: filter.unwrap_or_default(),
        namespace,
        after: list_after(after.as_deref())?,
        addresses: MOST_ADDRESSES,
    })
}

impl Inspector {
    /// `None` if the publisher does not answer.
    pub(super) async fn names(&self, query: NamesQuery) -> Option<NameList> {
        let asked = async {
            let (sender, answer) = oneshot::channel();
            let question = InspectRequest::Names(query, sender);
            self.sources.publisher.send(question).await.ok()?;
            answer.await.ok()
        };
        // A list searches all names, so only one such request runs at a time.
        let answer = timeout(ANSWER_DEADLINE, self.pacer.ask(asked)).await;
        answer.ok().flatten()
    }
}
