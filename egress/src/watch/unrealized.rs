//! The changes whose realized line is awaited, by the number that the ovn-writer gave them.

use std::{
    collections::HashMap,
    net::IpAddr,
    time::{Duration, Instant},
};

/// A rule's name, and an address.
type Of = (String, IpAddr);

#[derive(Debug, Default)]
pub(super) struct Unrealized {
    by_writer: HashMap<String, HashMap<u64, (Instant, Vec<Of>)>>,
}

impl Unrealized {
    pub(super) fn add(&mut self, place: &str, follow_up: u64, of: Of, now: Instant) {
        let of_writer = self.by_writer.entry(place.to_owned()).or_default();
        let (_, all) = of_writer
            .entry(follow_up)
            .or_insert_with(|| (now, Vec::new()));
        all.push(of);
    }

    /// Those that are realized now.
    pub(super) fn take(&mut self, place: &str, follow_up: u64) -> Vec<Of> {
        let of_writer = self.by_writer.get_mut(place);
        let taken = of_writer.and_then(|it| it.remove(&follow_up));
        taken.map_or_else(Vec::new, |(_, all)| all)
    }

    /// Those of an ovn-writer that is gone.
    pub(super) fn forget(&mut self, place: &str) -> Vec<Of> {
        let gone = self.by_writer.remove(place).unwrap_or_default();
        gone.into_values().flat_map(|(_, all)| all).collect()
    }

    /// The line of some was lost.
    pub(super) fn forget_before(&mut self, now: Instant, age: Duration) {
        for of_writer in self.by_writer.values_mut() {
            of_writer.retain(|_, (since, _)| now.saturating_duration_since(*since) < age);
        }
    }
}
