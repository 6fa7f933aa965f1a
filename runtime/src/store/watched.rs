//! The observability of a watch: its metrics, and its undecodable objects.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use kube::Resource;

use super::metrics;

/// How many objects of each watch are named.
const MAX_NAMED: usize = 100;

/// The objects that do not decode now, of all watches of a store. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct BadObjects(Arc<Mutex<Watches>>);

#[derive(Debug, Default)]
struct Watches {
    next: u64,
    named: BTreeMap<u64, Vec<BadObject>>,
}

/// An object that does not decode. It is skipped, and its last known state stays valid.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct BadObject {
    /// Its kind.
    pub kind: String,
    /// `NAMESPACE/NAME`, or the path of a file.
    pub place: String,
    /// The fault; it may quote foreign text.
    pub fault: String,
}

impl BadObjects {
    /// At most 100 of each watch, sorted. An object that two watches of one kind see is listed twice.
    pub fn list(&self) -> Vec<BadObject> {
        let mut all: Vec<_> = self.locked().named.values().flatten().cloned().collect();
        all.sort_unstable();
        all
    }

    fn locked(&self) -> MutexGuard<'_, Watches> {
        // Each change is a single assignment, so a panic elsewhere leaves no half-done change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One watch.
#[derive(Debug)]
pub(crate) struct Watched {
    kind: String,
    scope: String,
    bad: BadObjects,
    id: u64,
    /// The last reported number of undecodable objects.
    count: Option<usize>,
}

impl Watched {
    /// A watch of a kind; `scope` distinguishes it from others of the kind.
    pub(crate) fn new<K: Resource<DynamicType = ()>>(scope: String, bad: BadObjects) -> Self {
        let id = {
            let mut watches = bad.locked();
            watches.next += 1;
            watches.next
        };
        Self {
            kind: K::kind(&()).into_owned(),
            scope,
            bad,
            id,
            count: None,
        }
    }

    pub(crate) fn in_sync(&self, yes: bool) {
        metrics::in_sync(&self.kind, &self.scope, yes);
    }

    /// Records a gap: changes were lost, and everything is read again.
    pub(crate) fn gap(&self) {
        metrics::gap(&self.kind, &self.scope);
    }

    /// Records how many objects do not decode now, and how many were found since the last call. `named` has their
    /// places and faults.
    pub(crate) fn bad<N: Iterator<Item = (String, String)>>(
        &mut self,
        count: usize,
        found: usize,
        named: impl FnOnce() -> N,
    ) {
        if found == 0 && self.count == Some(count) {
            return;
        }
        self.count = Some(count);
        let kind = || self.kind.clone();
        let named = named().take(MAX_NAMED).map(|(place, fault)| BadObject {
            kind: kind(),
            place,
            fault,
        });
        let named = named.collect();
        self.bad.locked().named.insert(self.id, named);
        metrics::bad_objects(&self.kind, &self.scope, count, found);
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.bad.locked().named.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use proto::api::{DnsNameResolver, EgressFirewall};

    use super::*;

    fn say(watched: &mut Watched, places: &[&str], found: usize) {
        let fault = |place: &&str| ((*place).to_owned(), "bad".to_owned());
        watched.bad(places.len(), found, || places.iter().map(fault));
    }

    fn places(bad: &BadObjects) -> Vec<String> {
        bad.list().into_iter().map(|bad| bad.place).collect()
    }

    #[test]
    fn what_each_watch_cannot_read_is_listed_until_it_can_or_the_watch_ends() {
        let bad = BadObjects::default();
        let mut one = Watched::new::<EgressFirewall>(String::new(), bad.clone());
        let mut other = Watched::new::<DnsNameResolver>(String::new(), bad.clone());
        say(&mut one, &["b", "a"], 2);
        say(&mut other, &["c"], 1);
        assert_eq!(places(&bad), ["c", "a", "b"]);
        say(&mut one, &["b"], 0);
        assert_eq!(places(&bad), ["c", "b"]);
        drop(other);
        assert_eq!(places(&bad), ["b"]);
    }

    #[test]
    fn watches_of_one_kind_are_told_apart_by_their_scope() {
        let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
        ::metrics::with_local_recorder(&recorder, || {
            for (scope, in_sync) in [("kube-system", true), ("openshift-dns", false)] {
                let watched =
                    Watched::new::<EgressFirewall>(scope.to_owned(), BadObjects::default());
                watched.in_sync(in_sync);
            }
        });
        let text = recorder.handle().render();
        for sample in ["scope=\"kube-system\"} 1\n", "scope=\"openshift-dns\"} 0\n"] {
            let sample = format!("egress_store_in_sync{{kind=\"EgressFirewall\",{sample}");
            assert!(text.contains(&sample), "{text}");
        }
    }

    #[test]
    fn so_many_are_named_and_all_are_counted() {
        let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
        ::metrics::with_local_recorder(&recorder, || {
            let bad = BadObjects::default();
            let mut watched = Watched::new::<EgressFirewall>("*".to_owned(), bad.clone());
            let names: Vec<String> = (0..500).map(|i| i.to_string()).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            say(&mut watched, &names, 500);
            assert_eq!(bad.list().len(), MAX_NAMED);
        });
        let text = recorder.handle().render();
        let gauge = "egress_store_undecodable_objects{kind=\"EgressFirewall\",scope=\"*\"} 500\n";
        assert!(text.contains(gauge), "{text}");
    }
}
