//! `/names.json`: names with their addresses.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{RawQuery, State},
    response::{IntoResponse, Response},
};
use proto::api::DnsName;
use runtime::{
    clock::Timestamp,
    inspect::{QueryError, busy, json, list_after, query},
};
use serde::Serialize;
use tokio::{sync::oneshot, time::timeout};

use crate::facts::{ANSWER_DEADLINE, Inspector, PROGRAM};
use crate::{
    facts::explained::AddressExplained,
    listen::PeerIds,
    publish::{InspectRequest, ListedName, NameFacts, NameListing, NamesQuery},
};

/// The most addresses for each name; further ones are counted.
const MOST_ADDRESSES: usize = 1_000;

/// The answer.
#[derive(Debug, Serialize)]
struct Names {
    at: Timestamp,
    leader: bool,
    names: Vec<NameStatus>,
    /// The last listed name, if more follow.
    next: Option<DnsName>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct NameStatus {
    #[serde(flatten)]
    facts: NameFacts,
    /// The namespaces with a rule for it, at most 100.
    namespaces: Vec<Arc<str>>,
    more_namespaces: usize,
    /// The clients that asked for the listed addresses, as far as known.
    asked_by: Vec<IpAddr>,
    addresses: Vec<AddressExplained>,
}

pub(super) async fn in_json(
    State(inspector): State<Arc<Inspector>>,
    RawQuery(asked): RawQuery,
) -> Response {
    let query = match names_query(asked.as_deref()) {
        Ok(query) => query,
        Err(error) => return error.into_response(),
    };
    match inspector.names(query).await {
        Some(listing) => json(&Names::new(listing, &inspector.sources.peers)),
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
    /// `None` if the controller does not answer.
    pub(super) async fn names(&self, query: NamesQuery) -> Option<NameListing> {
        let asked = async {
            let (sender, told) = oneshot::channel();
            let question = InspectRequest::Names(query, sender);
            self.sources.controller.send(question).await.ok()?;
            told.await.ok()
        };
        // A list searches all names, so only one such request runs at a time.
        let told = timeout(ANSWER_DEADLINE, self.pacer.ask(asked)).await;
        told.ok().flatten()
    }
}

impl Names {
    fn new(listing: NameListing, peers: &PeerIds) -> Self {
        let names = listing.names.into_iter();
        Self {
            at: listing.at,
            leader: listing.leader,
            names: names.map(|name| NameStatus::new(name, peers)).collect(),
            next: listing.last,
        }
    }
}

impl NameStatus {
    fn new(name: ListedName, peers: &PeerIds) -> Self {
        let addresses = name.facts.addresses.iter();
        Self {
            addresses: addresses
                .map(|(facts, in_object)| AddressExplained::new(facts, *in_object, peers))
                .collect(),
            facts: name.facts,
            namespaces: name.namespaces,
            more_namespaces: name.more_namespaces,
            asked_by: name.asked_by,
        }
    }
}
