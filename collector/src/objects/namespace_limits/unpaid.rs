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
};
use crate::clients::Namespace;

/// A new leader takes some time to know the pods.
pub(super) const PODS_KNOWN_AFTER: Duration = Duration::from_secs(600);

/// The unpaid addresses of all wildcards that count for one namespace, or for none if no namespace
/// has a rule.
#[derive(Debug, Default)]
struct OfNamespace {
    addresses: usize,
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
        let mut excess = unpaid.addresses.saturating_sub(quota);
        for (_, spec) in &unpaid.wildcards {
            let is_asked = |cost: &Cost<'_>| cost.is_asked;
            excess = drop_unpaid(names, spec, is_asked, excess, charged, now);
        }
    }
}

/// Removes unpaid names while all addresses together exceed the limit, from the namespaces with the
/// most first.
pub(super) fn drop_of_all(
    names: &mut NameTable,
    charged: &mut Charged,
    (measure, most): (Measure, usize),
    now: Timestamp,
) {
    let mut unpaid = OfNamespace::all(names, charged, |it| it.all);
    unpaid.sort_by_key(|(_, unpaid)| Reverse(unpaid.addresses));
    for (_, spec) in unpaid.iter().flat_map(|(_, unpaid)| &unpaid.wildcards) {
        // The order of all names takes long to find out.
        if charged.all.of(measure) <= most {
            return;
        }
        charged.drop_found(names, spec, now, |cost, charged| {
            cost.is_unpaid() && charged.all.of(measure) > most
        });
    }
}

impl OfNamespace {
    /// Assigns the wildcards to namespaces.
    fn all(
        names: &NameTable,
        charged: &Charged,
        count: impl Fn(&Unpaid) -> usize,
    ) -> Vec<(Option<Namespace>, Self)> {
        let wildcards = charged.unpaid.iter().filter_map(|unpaid| {
            let with_rule = &*names.entries.get(&unpaid.spec)?.with_rule;
            let count = count(unpaid);
            (count > 0).then_some((with_rule, count, &unpaid.spec))
        });
        let mut wildcards: Vec<_> = wildcards.collect();
        // Wildcards of several namespaces come last, when the sums of the others are known.
        wildcards.sort_by_key(|(with_rule, count, spec)| (with_rule.len(), Reverse(*count), *spec));
        let mut of: HashMap<Option<Namespace>, Self> = HashMap::new();
        for (with_rule, count, spec) in wildcards {
            let has = |it: &Namespace| of.get(&Some(*it)).map_or(0, |of| of.addresses);
            let namespace = with_rule.iter().copied().min_by_key(has);
            let of = of.entry(namespace).or_default();
            of.addresses += count;
            of.wildcards.push((count, spec.clone()));
        }
        for unpaid in of.values_mut() {
            unpaid.wildcards.sort_by(|one, other| other.cmp(one));
        }
        of.into_iter().collect()
    }
}

/// Removes unpaid names of a wildcard while there are too many addresses. Returns the remaining
/// excess.
fn drop_unpaid(
    names: &mut NameTable,
    spec: &DnsName,
    goes: impl Fn(&Cost<'_>) -> bool,
    mut excess: usize,
    charged: &mut Charged,
    now: Timestamp,
) -> usize {
    // Sorting all names is expensive, so it is skipped without an excess.
    if excess > 0 {
        charged.drop_found(names, spec, now, |cost, _| {
            let goes = excess > 0 && cost.is_unpaid() && goes(cost);
            excess = excess.saturating_sub(if goes { cost.count.all } else { 0 });
            goes
        });
    }
    excess
}
