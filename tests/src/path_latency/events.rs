//! The new addresses that both programs remember.

use std::{net::Ipv4Addr, path::PathBuf};

use proto::facts::{MOST_NEW_ADDRESSES, Query, Status};

use crate::admin::get_over_unix;

/// The times of a new address, in milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Came {
    pub(super) answered: i64,
    pub(super) read: i64,
    /// The store acknowledged the status.
    pub(super) status: i64,
    /// The ovn-writer received the object.
    pub(super) object: i64,
    /// The northbound database acknowledged the row.
    pub(super) row: i64,
}

/// The times of an address of a name that was asked. The sockets are those of the collector and of the ovn-writer.
///
/// # Errors
/// The part that is missing yet.
pub(super) async fn came(
    [collector, ovn_writer]: &[PathBuf; 2],
    name: &str,
    address: Ipv4Addr,
) -> Result<Came, String> {
    let names = read(collector).await?.collector.ok_or("no collector")?;
    let is_it = |it: &&proto::facts::NameAddress| it.name == name && it.address == address;
    let of_name = names.new_addresses.iter().rev().find(is_it);
    let of_name = of_name.ok_or("no answer")?;
    let answered = of_name.answered_at;
    let answered = answered.ok_or("a look-up of the collector was first")?;
    let status = of_name.status_written_at.ok_or("no status")?;
    let rows = read(ovn_writer).await?.ovn_writer.ok_or("no ovn-writer")?;
    let is_it = |it: &&proto::facts::RowAddress| it.rule == of_name.rule && it.address == address;
    let row = rows
        .new_addresses
        .iter()
        .rev()
        .find(is_it)
        .ok_or("no row")?;
    Ok(Came {
        answered: answered.as_millis(),
        read: of_name.read_at.as_millis(),
        status: status.as_millis(),
        object: row.received_at.as_millis(),
        row: row.committed_at.as_millis(),
    })
}

async fn read(socket: &std::path::Path) -> Result<Status, String> {
    let query = Query {
        limit: 0,
        recent: MOST_NEW_ADDRESSES,
        ..Query::all()
    };
    let answer = get_over_unix(socket, &query.path()).await;
    let (_, body) = answer.map_err(|error| error.to_string())?;
    serde_json::from_str(&body).map_err(|error| error.to_string())
}
