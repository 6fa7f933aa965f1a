//! The clients that asked for a name under a wildcard. Eviction depends on them.

use std::net::IpAddr;

use super::make_room;

/// The most clients kept for each name: the first ones.
const MOST: usize = 8;

/// Clients that asked for a name, the first one first.
#[derive(Clone, Debug, Default)]
pub(super) struct ClientsOfName(Vec<IpAddr>);

impl ClientsOfName {
    pub(super) fn as_slice(&self) -> &[IpAddr] {
        &self.0
    }

    pub(super) fn first(&self) -> Option<IpAddr> {
        self.0.first().copied()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = IpAddr> {
        self.0.iter().copied()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn insert(&mut self, client: IpAddr) {
        if self.0.len() < MOST && !self.0.contains(&client) {
            make_room(&mut self.0);
            self.0.push(client);
        }
    }

    pub(super) fn extend(&mut self, others: &Self) {
        for client in others.iter() {
            self.insert(client);
        }
    }
}
