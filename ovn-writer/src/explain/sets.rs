//! A table of address sets.

use std::{collections::BTreeSet, net::IpAddr};

use foldhash::HashSet;
use proto::api::{DnsName, Family};
use serde::Serialize;
use uuid::Uuid;

use super::Sides;
use crate::{
    address_set::AddressSet,
    references::{NorthboundReplica, SetName},
    report::{Action, Kind, NameReport, SetReport},
};

/// The maximum number of sets; for others their names are counted.
const MOST: usize = 500;

/// The maximum number of addresses of all sets together. A single name may exceed it.
const MOST_ADDRESSES: usize = 20_000;

/// The maximum number of namespaces per set; the rest is counted.
const MOST_NAMESPACES: usize = 100;

/// The maximum length of foreign text, in characters.
const MOST_OF_TEXT: usize = 128;

/// Which sets are asked for.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SetsQuery {
    /// Only names that contain this text, ignoring case, or whose rows' names do.
    pub filter: String,
    pub selection: Selection,
    /// The maximum number of addresses per set; the rest is counted.
    pub addresses: usize,
}

/// The part of the matching sets.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Selection {
    /// Only sets with differences.
    Differing,
    /// Those after this name.
    After(Option<DnsName>),
}

impl Default for Selection {
    fn default() -> Self {
        Self::After(None)
    }
}

/// The address sets of a query.
#[derive(Clone, Debug, Serialize)]
pub struct Sets {
    /// The number of names in the store or the database.
    pub names: usize,
    /// The number of matching names.
    pub matching: usize,
    /// At most 500.
    pub sets: Vec<SetShown>,
    /// The number of selected names whose sets are not listed.
    #[serde(rename = "moreNames")]
    pub hidden: usize,
    /// The last listed name, if more follow.
    #[serde(rename = "next")]
    pub last: Option<DnsName>,
}

/// An address set, whether its row exists or not.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SetShown {
    pub name: String,
    /// `name` of the row.
    pub set: String,
    /// `k8s.ovn.org/owner-controller`.
    pub controller: String,
    pub family: &'static str,
    /// The number of addresses that the store wants in it.
    pub wanted: usize,
    /// The number of its members; `None` if there is no row.
    pub present: Option<usize>,
    /// The first of its addresses.
    pub addresses: Vec<IpAddr>,
    /// The number of rules and NAT rows that refer to it.
    pub rules: usize,
    /// The namespaces of these rules, at most 100.
    pub namespaces: Vec<String>,
    /// The number of other namespaces.
    pub more_namespaces: usize,
    /// Its difference, and the planned action.
    #[serde(rename = "difference")]
    pub trouble: Option<String>,
    /// The difference is about to be written, so it is no problem.
    pub is_being_written: bool,
}

impl Sets {
    /// The sets of the query.
    pub fn new(query: &SetsQuery, sides: Sides<'_>) -> Self {
        let filter = query.filter.to_ascii_lowercase();
        let holds = |text: &str| text.to_ascii_lowercase().contains(&filter);
        let desired = &sides.state().desired;
        let rows = sides.replica.into_iter().flat_map(|it| it.0.iter());
        let rows = rows.filter_map(|(_, row)| Some((&row.identity()?.name, row.name())));
        let (mut names, mut matching) = (HashSet::default(), HashSet::default());
        for (name, row) in desired.names().map(|name| (name, "")).chain(rows) {
            names.insert(name);
            if filter.is_empty() || holds(name.as_str()) || holds(row) {
                matching.insert(name);
            }
        }
        let is_selected = |name: &&DnsName| match &query.selection {
            Selection::Differing => sides.state().differs(name),
            Selection::After(after) => after.as_ref().is_none_or(|after| after < *name),
        };
        let mut selected: Vec<&DnsName> = matching.iter().copied().filter(is_selected).collect();
        let count = selected.len();
        // Sorting all of them would take long.
        if count > MOST {
            selected.select_nth_unstable(MOST);
            selected.truncate(MOST);
        }
        selected.sort_unstable();
        let (mut sets, mut shown, mut addresses) = (Vec::new(), 0, 0);
        if let Some(replica) = sides.replica {
            for name in &selected {
                let mut of_name = sides.sets(name, replica, query.addresses);
                if query.selection == Selection::Differing {
                    of_name.retain(|set| set.trouble.is_some());
                }
                addresses += of_name.iter().map(|it| it.addresses.len()).sum::<usize>();
                let is_full = sets.len() + of_name.len() > MOST || addresses > MOST_ADDRESSES;
                if is_full && !sets.is_empty() {
                    break;
                }
                sets.extend(of_name);
                shown += 1;
            }
        }
        sets.truncate(MOST);
        let last = selected.get(..shown).and_then(|shown| shown.last());
        Self {
            names: names.len(),
            matching: matching.len(),
            hidden: count - shown,
            last: last.filter(|_| shown < count).map(|name| (*name).clone()),
            sets,
        }
    }
}

impl Sides<'_> {
    /// The sets of a name, sorted; those with a missing row first.
    fn sets(&self, name: &DnsName, replica: &NorthboundReplica, most: usize) -> Vec<SetShown> {
        let plan = self.state().look(name, replica, self.now);
        let report = NameReport::of(name, &plan, replica, &self.state().references);
        let (missing, mut differing): (Vec<_>, Vec<_>) = report
            .sets
            .into_iter()
            .partition(|set| matches!(set.kind, Kind::MissingRow | Kind::NameClash));
        let missing = missing.iter().map(|set| {
            let of = (set.set.as_str(), set.controller.as_str(), set.family);
            let shown = self.set(name, of, None, replica, most);
            self.with_difference(name, shown, Some(set))
        });
        let rows = replica.0.with_key(name).filter_map(|(uuid, row)| {
            let family = row.identity()?.family;
            let is_this = |set: &SetReport| set.set == row.name() && set.family == family;
            let differs = differing.iter().position(is_this);
            let difference = differs.map(|place| differing.swap_remove(place));
            let of = (row.name(), row.controller().unwrap_or_default(), family);
            let shown = self.set(name, of, Some((uuid, row)), replica, most);
            Some(self.with_difference(name, shown, difference.as_ref()))
        });
        let mut sets: Vec<_> = missing.chain(rows).collect();
        sets.sort_by(|a, b| {
            let key = |set: &SetShown| (set.present.is_some(), set.family, set.controller.clone());
            key(a).cmp(&key(b))
        });
        sets
    }

    fn set(
        &self,
        name: &DnsName,
        (set, controller, family): (&str, &str, Family),
        row: Option<(Uuid, &AddressSet)>,
        replica: &NorthboundReplica,
        most: usize,
    ) -> SetShown {
        let (references, set_name) = (&self.state().references, SetName::from(set));
        let (mut rules, mut namespaces) = (0, BTreeSet::new());
        for rule in references.rules(replica, &set_name) {
            rules += 1;
            namespaces.extend(rule.namespace());
        }
        let wanted = self.state().desired.wanted(name);
        let members = row.into_iter().flat_map(|(_, row)| row.addresses().iter());
        SetShown {
            name: name.to_string(),
            set: beginning(set),
            controller: beginning(controller),
            family: family.as_str(),
            wanted: wanted.map_or(0, |wanted| wanted.of_family(family).len()),
            present: row.map(|(_, row)| row.addresses().len() + row.others().len()),
            addresses: members.take(most).collect(),
            rules,
            more_namespaces: namespaces.len().saturating_sub(MOST_NAMESPACES),
            namespaces: namespaces
                .into_iter()
                .take(MOST_NAMESPACES)
                .map(beginning)
                .collect(),
            trouble: None,
            is_being_written: false,
        }
    }

    fn with_difference(
        &self,
        name: &DnsName,
        set: SetShown,
        difference: Option<&SetReport>,
    ) -> SetShown {
        let Some(difference) = difference else {
            return set;
        };
        let refused = self.sync.refused_for(name, self.now);
        let is_now = difference.action == Action::Now;
        let trouble = match refused {
            Some(wait) => format!(
                "{}; the server refused the change: the log says why; again in {} s",
                words(difference),
                wait.as_secs()
            ),
            None => words(difference),
        };
        SetShown {
            trouble: Some(trouble),
            is_being_written: is_now && refused.is_none() && !self.is_dry_run(),
            ..set
        }
    }
}

fn beginning(text: &str) -> String {
    text.chars().take(MOST_OF_TEXT).collect()
}

/// The difference of a set, and the planned action.
fn words(set: &SetReport) -> String {
    let what = match set.kind {
        Kind::MissingRow => "the row is missing".to_owned(),
        Kind::NameClash => "the row cannot be created".to_owned(),
        Kind::Addresses => format!(
            "{} missing, {} too many",
            set.missing.len(),
            set.surplus.len()
        ),
        Kind::UnwantedRow => "it has neither an object nor a rule".to_owned(),
    };
    what + set.action.as_str()
}
