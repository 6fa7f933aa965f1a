//! A table of all address sets.

use std::collections::BTreeSet;

use proto::api::{DnsName, Family};
use uuid::Uuid;

use super::{Reason, Sides};
use crate::{
    address_set::AddressSet,
    desired::Wanted,
    realized::view::RealizedView,
    references::{NorthboundReplica, SetName},
    report::{Action, Kind, NameReport, SetReport, short_duration},
    sync::change_log::Cause,
};

/// The maximum number of sets; for others their names are counted.
const MOST: usize = 500;

/// The maximum length of foreign text, in characters.
const MOST_OF_TEXT: usize = 128;

/// The address sets whose DNS name or row name contains a text.
#[derive(Clone, Debug)]
pub struct Sets {
    /// The conditions that affect all names.
    pub conditions: Vec<Reason>,
    /// The number of names in the store or the database.
    pub names: usize,
    /// The number of matching names.
    pub matching: usize,
    /// Sets with differences first, then by name; at most 500.
    pub sets: Vec<SetShown>,
    /// The number of matching names whose sets are not shown.
    pub hidden: usize,
    /// When changes are realized; `None` if nothing asks for that.
    pub realized: Option<RealizedView>,
}

/// An address set, whether its row exists or not.
#[derive(Clone, Debug)]
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
    /// The number of rules and NAT rows that refer to it.
    pub rules: usize,
    /// How many seconds ago this process repaired it last, as far as known.
    pub repaired: Option<u64>,
    /// Its difference, and the planned action.
    pub trouble: Option<String>,
}

impl Sets {
    /// The sets that contain the text, in any case; all sets for an empty text.
    pub fn new(filter: &str, sides: Sides<'_>) -> Self {
        let filter = filter.to_ascii_lowercase();
        let holds = |text: &str| text.to_ascii_lowercase().contains(&filter);
        let desired = &sides.state().desired;
        let rows = sides.replica.into_iter().flat_map(|it| it.0.iter());
        let rows = rows.filter_map(|(_, row)| Some((&row.identity()?.name, row.name())));
        let wanted = desired.names().filter(|name| {
            let wanted = desired.wanted(name);
            wanted.is_some_and(|wanted| wanted.is_present())
        });
        let (mut names, mut matching) = (BTreeSet::new(), BTreeSet::new());
        for (name, row) in wanted.map(|name| (name, "")).chain(rows) {
            names.insert(name);
            if filter.is_empty() || holds(name.as_str()) || holds(row) {
                matching.insert((!sides.state().differs(name), name));
            }
        }
        let (mut sets, mut shown) = (Vec::new(), 0);
        if let Some(replica) = sides.replica {
            for (_, name) in &matching {
                let of_name = sides.sets(name, replica);
                if sets.len() + of_name.len() > MOST && !sets.is_empty() {
                    break;
                }
                sets.extend(of_name);
                shown += 1;
            }
        }
        sets.truncate(MOST);
        Self {
            conditions: sides.conditions(),
            names: names.len(),
            matching: matching.len(),
            hidden: matching.len() - shown,
            realized: sides.realized.cloned(),
            sets,
        }
    }
}

impl Sides<'_> {
    /// The sets of a name, sorted; those with a missing row first.
    fn sets(&self, name: &DnsName, replica: &NorthboundReplica) -> Vec<SetShown> {
        let plan = self.state().look(name, replica, self.now);
        let report = NameReport::of(name, &plan, replica, &self.state().references, self.now);
        let (missing, mut differing): (Vec<_>, Vec<_>) = report
            .sets
            .into_iter()
            .partition(|set| matches!(set.kind, Kind::MissingRow | Kind::NameClash));
        let missing = missing.iter().map(|set| {
            let of = (set.set.as_str(), set.controller.as_str(), set.family);
            self.set(name, of, None, replica, Some(trouble(set)))
        });
        let rows = replica.0.with_key(name).filter_map(|(uuid, row)| {
            let family = row.identity()?.family;
            let is_this = |set: &SetReport| set.set == row.name() && set.family == family;
            let differs = differing.iter().position(is_this);
            let trouble = differs.map(|place| trouble(&differing.swap_remove(place)));
            let of = (row.name(), row.controller().unwrap_or_default(), family);
            Some(self.set(name, of, Some((uuid, row)), replica, trouble))
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
        trouble: Option<String>,
    ) -> SetShown {
        let (references, set_name) = (&self.state().references, SetName::from(set));
        let nats = references.nats(replica, &set_name, row.map(|(uuid, _)| uuid));
        let wanted = self.state().desired.wanted(name);
        let wanted = wanted.filter(Wanted::is_present);
        let mut history = self.sync.change_log.of(name).filter(|_| row.is_some());
        let repair = history.find(|it| it.cause == Cause::Repair && it.family == family);
        SetShown {
            name: name.to_string(),
            set: beginning(set),
            controller: beginning(controller),
            family: family.as_str(),
            wanted: wanted.map_or(0, |wanted| wanted.of_family(family).len()),
            present: row.map(|(_, row)| row.addresses().len() + row.others().len()),
            rules: references.rules(replica, &set_name).count() + nats.count(),
            repaired: repair.map(|it| self.seconds_since(it.at)),
            trouble,
        }
    }
}

fn beginning(text: &str) -> String {
    text.chars().take(MOST_OF_TEXT).collect()
}

/// The difference of a set, and the planned action.
fn trouble(set: &SetReport) -> String {
    let what = match set.kind {
        Kind::MissingRow => "the row is missing".to_owned(),
        Kind::NameClash => "the row cannot be created".to_owned(),
        Kind::Addresses => format!(
            "{} missing, {} too many",
            set.missing.len(),
            set.surplus.len()
        ),
        Kind::UnwantedRow => "the store does not have its name".to_owned(),
    };
    match set.action {
        Action::Now => what,
        Action::AfterMillis(wait) => format!("{what}; repaired in {}", short_duration(wait)),
        Action::Left(reason) => format!("{what}; not repaired: {reason}"),
    }
}
