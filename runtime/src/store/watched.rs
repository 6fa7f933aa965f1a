//! The observability of a watch: its metrics, and its undecodable objects.

use std::{collections::BTreeMap, sync::Arc};

use kube::Resource;
use parking_lot::Mutex;
use tracing::warn;

use super::metrics;

/// How many objects of each watch are named.
const MAX_NAMED: usize = 100;

/// How many faults the log names at once.
const MAX_WARNINGS: usize = 20;

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
        let mut all: Vec<_> = self.0.lock().named.values().flatten().cloned().collect();
        all.sort_unstable();
        all
    }
}

/// One watch.
#[derive(Debug)]
pub(crate) struct Watched {
    kind: String,
    scope: String,
    bad: BadObjects,
    id: u64,
    /// The last reported faults.
    faults: Option<BTreeMap<String, String>>,
}

impl Watched {
    /// A watch of a kind; `scope` distinguishes it from others of the kind.
    pub(crate) fn new<K: Resource<DynamicType = ()>>(scope: String, bad: BadObjects) -> Self {
        let id = {
            let mut watches = bad.0.lock();
            watches.next += 1;
            watches.next
        };
        Self {
            kind: K::kind(&()).into_owned(),
            scope,
            bad,
            id,
            faults: None,
        }
    }

    pub(crate) fn in_sync(&self, yes: bool) {
        metrics::in_sync(&self.kind, &self.scope, yes);
    }

    /// Records a gap: changes were lost, and everything is read again.
    pub(crate) fn gap(&self) {
        metrics::gap(&self.kind, &self.scope);
    }

    /// Takes the faults of all objects that cannot be read now, by their places. New ones are logged and counted.
    pub(crate) fn set_faults(&mut self, faults: BTreeMap<String, String>) {
        if self.faults.as_ref() == Some(&faults) {
            return;
        }
        let before = self.faults.take().unwrap_or_default();
        let is_new = |(place, fault): &(_, _)| before.get(*place) != Some(*fault);
        let new = faults.iter().filter(is_new);
        for (place, fault) in new.clone().take(MAX_WARNINGS) {
            warn!("bad {} {place}: {fault}", self.kind);
        }
        metrics::bad_objects(&self.kind, &self.scope, faults.len(), new.count());
        let named = faults.iter().take(MAX_NAMED);
        let named = named.map(|(place, fault)| BadObject {
            kind: self.kind.clone(),
            place: place.clone(),
            fault: fault.clone(),
        });
        self.bad.0.lock().named.insert(self.id, named.collect());
        self.faults = Some(faults);
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.bad.0.lock().named.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use ::metrics::with_local_recorder;
    use metrics_exporter_prometheus::PrometheusBuilder;
    use proto::api::EgressFirewall;

    use super::*;

    fn faults<'a>(places: impl IntoIterator<Item = &'a str>) -> BTreeMap<String, String> {
        let fault = |place: &str| (place.to_owned(), "bad".to_owned());
        places.into_iter().map(fault).collect()
    }

    #[test]
    fn faults_are_counted_for_each_scope_and_named_up_to_a_limit() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let names: Vec<String> = (0..500).map(|i| i.to_string()).collect();
        with_local_recorder(&recorder, || {
            let bad = BadObjects::default();
            let watch = |scope: &str| Watched::new::<EgressFirewall>(scope.to_owned(), bad.clone());
            let (mut all, mut one) = (watch("*"), watch("kube-system"));
            all.set_faults(faults(names.iter().map(String::as_str)));
            all.set_faults(faults(names.iter().take(499).map(String::as_str)));
            one.set_faults(faults([]));
            assert_eq!(bad.list().len(), MAX_NAMED);
        });
        let text = recorder.handle().render();
        for sample in [
            "undecodable_objects{kind=\"EgressFirewall\",scope=\"*\"} 499\n",
            "decode_failures_total{kind=\"EgressFirewall\",scope=\"*\"} 500\n",
            "undecodable_objects{kind=\"EgressFirewall\",scope=\"kube-system\"} 0\n",
        ] {
            assert!(text.contains(sample), "{text}");
        }
    }
}
