//! Names under wildcards that no namespace pays for: the clients are pods of namespaces without a
//! rule, or no pods.
//!
//! They are counted for a namespace with the rule, which may have as many of them as its quota has
//! addresses. A wildcard of several namespaces counts for the one with the fewest.

use std::{cmp::Reverse, collections::HashMap, time::Duration};

use proto::api::DnsName;
use runtime::clock::Timestamp;

use super::{
    super::names::NameTable,
    charged::{Charged, Cost, Measure, Unpaid},
    level::level,
};
use crate::clients::Namespace;

/// A new leader takes some time to know the pods.
pub(super) const PODS_KNOWN_AFTER: Duration = Duration::from_secs(600);

/// The unpaid names of all wildcards that count for one namespace, or for none if no namespace has
/// a rule.
#[derive(Debug, Default)]
struct OfNamespace {
    /// Their addresses or bytes.
    amount: usize,
    /// Those with the most first.
    wildcards: Vec<(usize, DnsName)>,
}

/// Removes unpaid names of each namespace beyond its quota.
pub(super) fn limit(
    names: &mut NameTable,
    charged: &mut Charged,
    quota: impl Fn(Namespace) -> usize,
    now: Timestamp,
) {
    for (namespace, unpaid) in OfNamespace::all(names, charged, |it| it.asked) {
        let quota = namespace.map_or(usize::MAX, &quota);
        let excess = unpaid.amount.saturating_sub(quota);
        unpaid.drop(names, charged, excess, now, |cost| {
            cost.is_asked.then_some(cost.count.all)
        });
    }
}

/// Removes unpaid names while all names together exceed the limit. The namespaces with the most
/// lose them, down to one level.
pub(super) fn drop_of_all(
    names: &mut NameTable,
    charged: &mut Charged,
    (measure, most): (Measure, usize),
    now: Timestamp,
) {
    let excess = |charged: &Charged| charged.all.of(measure).saturating_sub(most);
    let mut unpaid = OfNamespace::all(names, charged, |it| it.all.of(measure));
    unpaid.sort_by_key(|(namespace, unpaid)| (Reverse(unpaid.amount), *namespace));
    let amounts = unpaid.iter().map(|(_, unpaid)| unpaid.amount);
    let level = level(amounts.collect(), excess(charged));
    for (_, unpaid) in unpaid {
        let excess = unpaid.amount.saturating_sub(level).min(excess(charged));
        unpaid.drop(names, charged, excess, now, |cost| {
            Some(cost.usage().of(measure))
        });
    }
}

impl OfNamespace {
    /// Assigns the wildcards to namespaces.
    fn all(
        names: &NameTable,
        charged: &Charged,
        amount: impl Fn(&Unpaid) -> usize,
    ) -> Vec<(Option<Namespace>, Self)> {
        let wildcards = charged.unpaid.iter().filter_map(|(spec, unpaid)| {
            let with_rule = &*names.entries.get(spec)?.in_use.with_rule;
            let amount = amount(unpaid);
            (amount > 0).then_some((with_rule, amount, spec))
        });
        let mut wildcards: Vec<_> = wildcards.collect();
        // Wildcards of several namespaces come last, when the sums of the others are known.
        wildcards
            .sort_by_key(|(with_rule, amount, spec)| (with_rule.len(), Reverse(*amount), *spec));
        let mut of: HashMap<Option<Namespace>, Self> = HashMap::new();
        for (with_rule, amount, spec) in wildcards {
            let has = |it: &Namespace| of.get(&Some(*it)).map_or(0, |of| of.amount);
            let namespace = with_rule.iter().copied().min_by_key(has);
            let of = of.entry(namespace).or_default();
            of.amount += amount;
            of.wildcards.push((amount, spec.clone()));
        }
        for unpaid in of.values_mut() {
            unpaid.wildcards.sort_by(|one, other| other.cmp(one));
        }
        of.into_iter().collect()
    }

    /// Removes names while there is an excess. `amount` tells how much of it a name takes, or that
    /// it stays.
    fn drop(
        &self,
        names: &mut NameTable,
        charged: &mut Charged,
        mut excess: usize,
        now: Timestamp,
        amount: impl Fn(&Cost<'_>) -> Option<usize>,
    ) {
        for (_, spec) in &self.wildcards {
            // Sorting all names is expensive, so it is skipped without an excess.
            if excess == 0 {
                return;
            }
            charged.drop_found(names, spec, now, |cost, _| {
                let amount = amount(cost).filter(|_| excess > 0 && cost.is_unpaid());
                excess = excess.saturating_sub(amount.unwrap_or(0));
                amount.is_some()
            });
        }
    }
}
