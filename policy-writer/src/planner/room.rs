//! The bytes of all objects of a namespace, whose limit its DNSResolvers share.

use std::time::Duration;

use runtime::store::ObjectKey;

use super::{Now, Planner};
use crate::output::Output;

/// How often bytes that became free are offered to DNSResolvers that leave addresses out.
const OFFERED: Duration = Duration::from_secs(60);

impl Planner {
    /// The bytes by which the objects of a `DNSResolver` may grow.
    pub(super) fn free_bytes(&self, key: &ObjectKey) -> usize {
        let stored = Output::ALL.map(|output| self.outputs(output).bytes(&key.namespace));
        let begun = self
            .growth
            .range(ObjectKey::before_all_in(&key.namespace)..)
            .take_while(|(other, _)| other.namespace == key.namespace);
        let begun = begun.filter(|(other, _)| *other != key);
        let begun: usize = begun.map(|(_, bytes)| bytes).sum();
        let taken = stored.into_iter().sum::<usize>() + begun;
        self.options.namespace_bytes.saturating_sub(taken)
    }

    /// Plans the DNSResolvers again that leave addresses out, after objects of their namespace became smaller.
    pub(super) fn offer_free_bytes(&mut self, now: Now) {
        let mut shrunk = Vec::new();
        for (namespace, at) in &mut self.full {
            let outputs = [&mut self.policies, &mut self.sets, &mut self.maps];
            if *at <= now.instant && outputs.into_iter().any(|it| it.has_shrunk(namespace)) {
                *at = now.instant + OFFERED;
                shrunk.push(namespace.clone());
            }
        }
        for namespace in shrunk {
            for outputs in [&mut self.policies, &mut self.sets, &mut self.maps] {
                outputs.forget_shrinking(&namespace);
            }
            let from = ObjectKey::before_all_in(&namespace);
            let inside = self.resolvers.range_mut(from..);
            let inside = inside.take_while(|(key, _)| key.namespace == namespace);
            let mut is_full = false;
            for (_, resolver) in inside.filter(|(_, it)| !it.left_out.is_empty()) {
                resolver.touch(now.instant);
                is_full = true;
            }
            if !is_full {
                self.full.remove(&namespace);
            }
        }
    }
}
