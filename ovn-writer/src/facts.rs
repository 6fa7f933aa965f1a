//! What the writer knows of names and addresses, and why an address is in a set or is not.

pub(crate) mod comparison;
mod inspector;
mod sets;
mod status;

use std::{collections::BTreeSet, net::IpAddr, time::Instant};

use proto::{
    api::DnsName,
    facts::{
        AddressExplained, Asked, Idle, NameExplained, Reason, RowExplained, RuleInDatabase,
        SetsExplained, Subject,
    },
    text::few,
};
use uuid::Uuid;

use crate::{
    address_set::AddressSet,
    desired::Skip,
    plan::{Reconciler, SyncState},
    references::{NorthboundReplica, SetName},
    report::{differences, rules},
};

pub use self::{
    inspector::{Inspector, QUEUE, WriterQuery, history},
    status::WriterStatus,
};

/// The maximum number of names, and of addresses per set; the rest is counted.
const MOST: usize = 1_000;

/// The maximum number of rules per set.
const MOST_RULES: usize = 100;

/// The store and the database, as the writer has them.
#[derive(Clone, Copy, Debug)]
pub struct Sides<'a> {
    /// The desired state, and the past changes.
    pub sync: &'a Reconciler,
    /// The database; `None` without a session.
    pub replica: Option<&'a NorthboundReplica>,
    /// Why this process writes nothing, if so.
    pub idle: Option<Idle>,
    pub now: Instant,
}

impl Sides<'_> {
    /// What is known of a name or an address, and why.
    pub fn explain(&self, asked: &Asked) -> SetsExplained {
        let mut explained = SetsExplained::default();
        match &asked.subject {
            Ok(subject) => self.fill(&mut explained, subject, asked.namespace.as_deref()),
            Err((_, why)) => {
                let sentence = format!("no object can have this name: {why}");
                explained.reasons.push(Reason::new("InvalidName", sentence));
            }
        }
        let mut rows = explained.names.iter().flat_map(|name| &name.rows);
        explained.is_there = rows.any(|row| !row.addresses.is_empty() && !row.rules.is_empty());
        explained.reasons.extend(self.reasons(asked, &explained));
        explained
    }

    fn fill(&self, explained: &mut SetsExplained, subject: &Subject, namespace: Option<&str>) {
        let (mut names, address): (Vec<DnsName>, _) = match subject {
            Subject::Name(name) => {
                let both = [Some(name.clone()), name.wildcard()].into_iter().flatten();
                (both.filter(|name| self.knows(name)).collect(), None)
            }
            Subject::Address(address) => (self.names_with_address(*address), Some(*address)),
        };
        names.sort_unstable();
        names.dedup();
        explained.more_names = names.len().saturating_sub(MOST);
        names.truncate(MOST);
        let names = names.iter().map(|name| self.name(name, address, namespace));
        explained.names = names.collect();
    }

    /// Why it is not in a set, and other problems.
    fn reasons(&self, asked: &Asked, explained: &SetsExplained) -> Vec<Reason> {
        let names = &explained.names;
        let mut reasons = self.conditions();
        let skips = self.skips(asked, names);
        if !skips.is_empty() {
            let sentence = match asked.subject {
                Ok(Subject::Address(_)) => "no set may have it, whatever statuses say",
                _ => "the objects have addresses that no set may have",
            };
            let sentence = format!("{sentence}: {}", skips.join("; "));
            reasons.push(Reason::new("Skipped", sentence));
        }
        // A skipped address is neither wanted nor unknown.
        let is_wanted = names.iter().any(|name| name.is_wanted);
        let is_explained = !skips.is_empty() && !is_wanted;
        if !explained.is_there && !is_explained && asked.subject.is_ok() && self.replica.is_some() {
            reasons.push(absence(asked, names));
        }
        if explained.is_there && !is_wanted {
            let sentence = "the store does not want it, or no longer: see the differences";
            reasons.push(Reason::new("Surplus", sentence));
        }
        reasons.extend(names.iter().filter_map(|name| {
            let name = DnsName::parse(&name.name).ok()?;
            let wait = self.sync.refused_for(&name, self.now)?;
            let sentence = format!(
                "the server refused to change the sets of {name}: the log says why; again in {} s",
                wait.as_secs()
            );
            Some(Reason::new("Refused", sentence))
        }));
        reasons
    }
}

/// Why no set that a rule refers to has it.
fn absence(asked: &Asked, names: &[NameExplained]) -> Reason {
    let rows = || names.iter().flat_map(|name| &name.rows);
    let is_address = matches!(asked.subject, Ok(Subject::Address(_)));
    let (code, sentence) = if names.is_empty() {
        let sentence = if is_address {
            "no status and no set has it"
        } else {
            "no object has the name, and no set is for it"
        };
        ("Unknown", sentence)
    } else if !names.iter().any(|name| name.is_wanted) {
        let sentence = if is_address {
            "no status has it, or none has it any more"
        } else {
            "no object of the name has an address, or none has one any more"
        };
        ("NotWanted", sentence)
    } else if !rows().any(|row| !row.addresses.is_empty()) {
        if names.iter().any(|name| !name.differences.is_empty()) {
            let sentence = "the store wants it, and no set has it: see the differences";
            ("NotWritten", sentence)
        } else {
            let sentence = "the store wants it, and there is no set for its family (IPv4 or IPv6): no rule refers to one, and \
                            ovn-kubernetes makes none in a cluster without that family";
            ("NoSet", sentence)
        }
    } else if !rows().any(|row| !row.rules.is_empty()) {
        let whose = asked.whose();
        let sentence =
            format!("no rule{whose} refers to the sets that have it, so they pass no packets");
        return Reason::new("NoRule", sentence);
    } else {
        let sentence = "the sets that rules refer to have no address of it";
        ("OtherSet", sentence)
    };
    Reason::new(code, sentence)
}

impl<'a> Sides<'a> {
    fn state(&self) -> &'a SyncState {
        self.sync.state()
    }

    fn is_dry_run(&self) -> bool {
        self.idle == Some(Idle::DryRun)
    }

    /// Why the address, or those of the names, are in no set.
    fn skips(&self, asked: &Asked, names: &[NameExplained]) -> Vec<&'static str> {
        let desired = &self.state().desired;
        let skips: BTreeSet<&'static str> = match &asked.subject {
            Err(_) => BTreeSet::new(),
            Ok(Subject::Address(address)) => {
                let admitted = desired.filter.admit(&address.to_string());
                admitted.err().map(Skip::as_str).into_iter().collect()
            }
            Ok(Subject::Name(_)) => {
                let names = names.iter().filter_map(|it| DnsName::parse(&it.name).ok());
                let skips = names.flat_map(|name| desired.skips_of(&name).collect::<Vec<_>>());
                skips.map(Skip::as_str).collect()
            }
        };
        skips.into_iter().collect()
    }

    /// The conditions that affect all names.
    fn conditions(&self) -> Vec<Reason> {
        let desired = &self.state().desired;
        let mut conditions = Vec::new();
        if !desired.has_been_read {
            let words = "the store has not been read yet";
            conditions.push(Reason::new("StoreUnread", words));
        } else if !desired.is_in_sync() {
            let words = "the store cannot be read: what was known of it holds";
            conditions.push(Reason::new("StoreOutOfSync", words));
        }
        if self.replica.is_none() {
            let words = "there is no session with the northbound database";
            conditions.push(Reason::new("NoDatabase", words));
        }
        conditions.extend(self.idle.map(|idle| Reason::new("Idle", idle.as_str())));
        let absent = self.state().absent();
        if !absent.is_empty() {
            conditions.push(Reason::new("AbsentObjects", absent_sentence(absent)));
        }
        conditions
    }

    fn knows(&self, name: &DnsName) -> bool {
        let has_row = |replica: &NorthboundReplica| replica.0.with_key(name).next().is_some();
        self.state().desired.wanted(name).is_some() || self.replica.is_some_and(has_row)
    }

    /// The names whose objects or rows have the address.
    fn names_with_address(&self, address: IpAddr) -> Vec<DnsName> {
        let desired = &self.state().desired;
        let wanting = desired.names().filter(|name| self.wants(name, address));
        let rows = self.replica.into_iter().flat_map(|it| it.0.iter());
        let holding = rows.filter(|(_, row)| row.holds(&address));
        let holding = holding.filter_map(|(_, row)| Some(&row.identity()?.name));
        wanting.chain(holding).cloned().collect()
    }

    fn wants(&self, name: &DnsName, address: IpAddr) -> bool {
        let wanted = self.state().desired.wanted(name);
        wanted.is_some_and(|wanted| wanted.addresses.all().contains(address))
    }

    fn name(
        &self,
        name: &DnsName,
        address: Option<IpAddr>,
        namespace: Option<&str>,
    ) -> NameExplained {
        let wanted = self.state().desired.wanted(name);
        let is_wanted = match address {
            Some(address) => self.wants(name, address),
            None => wanted.is_some_and(|it| !it.addresses.all().is_empty()),
        };
        let rows = self.replica.into_iter().flat_map(|replica| {
            let rows = replica.0.with_key(name);
            let rows = rows.filter(|(_, row)| address.is_none_or(|it| row.holds(&it)));
            rows.map(move |row| (replica, row))
        });
        let rows = rows
            .map(|(replica, (uuid, row))| self.row(name, (uuid, row), replica, address, namespace));
        let rows = rows.collect();
        let differences = self.replica.map(|replica| {
            let plan = self.state().look(name, replica, self.now);
            differences(name, &plan, replica, &self.state().references)
        });
        let objects = self.state().desired.objects_of(name);
        NameExplained {
            name: name.to_string(),
            objects: objects.map(ToString::to_string).collect(),
            is_wanted,
            rows,
            differences: differences.unwrap_or_default(),
        }
    }

    fn row(
        &self,
        name: &DnsName,
        (uuid, row): (Uuid, &AddressSet),
        replica: &NorthboundReplica,
        address: Option<IpAddr>,
        namespace: Option<&str>,
    ) -> RowExplained {
        let family = row.identity().map(|identity| identity.family);
        let mut members = row
            .addresses()
            .iter()
            .filter(|it| address.is_none_or(|asked| asked == *it));
        let told = members.by_ref().take(MOST).map(|address| {
            let written = self.sync.new_addresses.committed(row.name(), address);
            AddressExplained {
                address,
                since_seconds: written.map(|at| self.now.saturating_duration_since(at).as_secs()),
                is_wanted: self.wants(name, address),
            }
        });
        let addresses = told.collect();
        let more_addresses = members.count();
        let set = SetName::from(row.name());
        let all = rules(&set, replica, &self.state().references);
        let is_asked =
            |rule: &&RuleInDatabase| namespace.is_none_or(|it| rule.owner.as_deref() == Some(it));
        let counting = all.iter().filter(is_asked);
        let rules: Vec<_> = counting.clone().take(MOST_RULES).cloned().collect();
        let counted = counting.count();
        RowExplained {
            uuid: uuid.to_string(),
            set: row.name().to_owned(),
            controller: row.controller().unwrap_or_default().to_owned(),
            family: family.map_or("", proto::api::Family::as_str).to_owned(),
            addresses,
            more_addresses,
            more_rules: counted - rules.len(),
            rules_elsewhere: all.len() - counted,
            rules,
        }
    }
}

/// That names in use have no object.
fn absent_sentence(absent: &BTreeSet<DnsName>) -> String {
    format!(
        "{} names in use have no DNSNameResolver object, and their address sets keep their addresses: {}",
        absent.len(),
        few(absent.iter(), 3)
    )
}
