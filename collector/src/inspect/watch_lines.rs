//! `/watch`: new addresses and changed statuses, as lines of JSON.

use std::{net::IpAddr, sync::Arc};

use axum::{Extension, extract::State, response::Response};
use proto::api::DnsName;
use runtime::{clock::Timestamp, http::Exchange, inspect::text::json};
use serde::Serialize;

use super::Inspector;
use crate::{
    objects::{NewAddresses, NewStatus, WatchEvent},
    observe::PeerIds,
};

#[derive(Debug, Serialize)]
#[serde(
    tag = "kind",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
enum Line<'a> {
    State {
        at: Timestamp,
        /// The number of events that the reader lost, since it is too slow.
        lost: u64,
    },
    Answer {
        rule: &'a DnsName,
        name: &'a DnsName,
        addresses: &'a [IpAddr],
        more_addresses: usize,
        /// Those that the objects have already, under another name.
        known_addresses: &'a [IpAddr],
        answered_at: Option<Timestamp>,
        read_at: Timestamp,
        seen_where: String,
        namespaces: &'a [Arc<str>],
    },
    Status {
        rule: &'a DnsName,
        addresses: Vec<NameAddress<'a>>,
        more_addresses: usize,
        removed: Vec<NameAddress<'a>>,
        more_removed: usize,
        object: String,
        resource_version: &'a str,
        acknowledged_at: Timestamp,
        namespaces: &'a [Arc<str>],
    },
}

#[derive(Debug, Serialize)]
struct NameAddress<'a> {
    name: &'a DnsName,
    address: IpAddr,
}

impl<'a> NameAddress<'a> {
    fn all(addresses: &'a [(DnsName, IpAddr)]) -> Vec<Self> {
        let addresses = addresses.iter();
        let addresses = addresses.map(|(name, address)| Self {
            name,
            address: *address,
        });
        addresses.collect()
    }
}

pub(super) async fn answer(
    State(inspector): State<Arc<Inspector>>,
    Extension(exchange): Extension<Exchange>,
) -> Response {
    let sources = &inspector.sources;
    let (clock, peers) = (sources.clock.clone(), sources.peers.clone());
    let state = move |lost| {
        let at = clock.now();
        json(&Line::State { at, lost })
    };
    let line = move |event: &WatchEvent| json(&Line::of(event, &peers));
    sources.watch.answer(&exchange, state, line)
}

impl<'a> Line<'a> {
    fn of(event: &'a WatchEvent, peers: &PeerIds) -> Self {
        match event {
            WatchEvent::Answer(NewAddresses {
                rule,
                name,
                addresses,
                more,
                known,
                answered_at,
                read_at,
                source,
                namespaces,
            }) => Self::Answer {
                rule,
                name,
                addresses,
                more_addresses: *more,
                known_addresses: known,
                answered_at: *answered_at,
                read_at: *read_at,
                seen_where: peers.describe(*source),
                namespaces,
            },
            WatchEvent::Status(NewStatus {
                rule,
                addresses,
                more,
                removed,
                more_removed,
                object,
                resource_version,
                acknowledged_at,
                namespaces,
            }) => Self::Status {
                rule,
                addresses: NameAddress::all(addresses),
                more_addresses: *more,
                removed: NameAddress::all(removed),
                more_removed: *more_removed,
                object: object.to_string(),
                resource_version,
                acknowledged_at: *acknowledged_at,
                namespaces,
            },
        }
    }
}
