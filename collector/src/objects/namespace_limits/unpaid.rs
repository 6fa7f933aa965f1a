//! Names under wildcards that no namespace pays for: pods of a namespace without a rule asked for them, or clients that are no pods.
//!
//! They are counted for a namespace with the rule, which may have as many of them as it may have addresses. A wildcard of several namespaces
//! counts for the one that has fewest of them.

use std::{cmp::Reverse, collections::HashMap, time::Duration};

use proto::api::DnsName;
use runtime::clock::Timestamp;

use super::{
    super::names::NameTable,
    charged::{Charged, Cost, Measure, Unpaid},
};
use crate::clients::Namespace;

/// A new leader does not know at once which pods there are.
pub(super) const PODS_KNOWN_AFTER: Duration = Duration::from_secs(600);

/// The addresses that no namespace pays for, of all wildcards that count for one namespace, if any has a rule for them.
#[derive(Debug, Default)]
struct OfNamespace {
    addresses: usize,
    /// Those with most first.
    wildcards: Vec<(usize, DnsName)>,
}

/// Takes out what a namespace has more of than it may have.
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

/// Takes out what is too much for all together, of the namespaces with most first.
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
    /// What counts for which namespace.
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
        // Where there is a choice, it comes last.
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

/// Forgets names that a wildcard found for no namespace that pays, as long as there are too many addresses. Returns how many that still
/// are.
fn drop_unpaid(
    names: &mut NameTable,
    spec: &DnsName,
    goes: impl Fn(&Cost<'_>) -> bool,
    mut excess: usize,
    charged: &mut Charged,
    now: Timestamp,
) -> usize {
    // The order of all names takes long to find out.
    if excess > 0 {
        charged.drop_found(names, spec, now, |cost, _| {
            let goes = excess > 0 && cost.is_unpaid() && goes(cost);
            excess = excess.saturating_sub(if goes { cost.count.all } else { 0 });
            goes
        });
    }
    excess
}
