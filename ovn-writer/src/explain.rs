//! Explains why an address is in a set, or is not, from the writer's current state.

mod render_text;
mod sets;
mod snapshot;

use std::{collections::BTreeSet, net::IpAddr, time::Instant};

use proto::api::DnsName;
use runtime::inspect::{Asked, Subject};
use serde::Serialize;
use uuid::Uuid;

use crate::{
    address_set::AddressSet,
    desired::Skip,
    references::{NorthboundReplica, SetName},
    report::{NameReport, RuleReport},
    sync::{Reconciler, SyncState},
    verify::Absent,
};

pub use self::{
    sets::{Selection, SetShown, Sets, SetsQuery},
    snapshot::{Database, Snapshot},
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

/// Why a process writes nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Idle {
    /// It has `--dry-run`.
    DryRun,
    /// Another one writes.
    Standby,
}

impl Idle {
    /// The reason, for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DryRun => "this process writes nothing: --dry-run",
            Self::Standby => "this process stands by: another one writes",
        }
    }
}

/// The explanation of a name or an address.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The name with its trailing dot, or the address; the original text if it is neither.
    pub about: String,
    /// The namespace whose rules count; `None` for all.
    pub namespace: Option<String>,
    /// Whether a set with it is in use by a rule.
    pub is_there: bool,
    /// The names whose sets are affected, at most 1,000.
    pub names: Vec<NameExplained>,
    /// The number of other names.
    pub more_names: usize,
    /// Why it is not in a set, and other problems.
    pub reasons: Vec<Reason>,
    /// The explanation as lines of text.
    pub text: Vec<String>,
}

/// The reason while there is no session with the northbound database.
const NO_DATABASE: &str = "NoDatabase";

/// A name in the store or the database.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NameExplained {
    pub name: String,
    /// Its objects, `NAMESPACE/NAME`.
    pub objects: Vec<String>,
    /// Whether the store wants the address, or any address of the name.
    pub is_wanted: bool,
    /// The rows of the name that have the address; all its rows for a name.
    pub rows: Vec<RowExplained>,
    /// The differences between store and database, as in `egress verify`.
    pub differences: Option<NameReport>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RowExplained {
    pub uuid: Uuid,
    /// `name`.
    pub set: String,
    /// `k8s.ovn.org/owner-controller`.
    pub controller: String,
    pub family: &'static str,
    /// The matching addresses, at most 1,000.
    pub addresses: Vec<AddressExplained>,
    /// The number of others.
    pub more_addresses: usize,
    /// The rules that refer to it, at most 100.
    pub rules: Vec<RuleReport>,
    /// The number of others.
    pub more_rules: usize,
    /// The number of rules left out because they belong to other namespaces.
    pub rules_elsewhere: usize,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressExplained {
    pub address: String,
    /// For how many seconds, if it is one of the last new addresses.
    pub since_seconds: Option<u64>,
    /// Whether the store wants it.
    pub is_wanted: bool,
}

/// Why it is not in a set, or another problem.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reason {
    /// A word for programs.
    pub reason: &'static str,
    /// A sentence for people.
    pub words: String,
}

impl Explanation {
    /// The explanation for a query.
    pub fn new(asked: &Asked, sides: Sides<'_>) -> Self {
        let mut explanation = Self {
            about: asked.text(),
            namespace: asked.namespace.clone(),
            is_there: false,
            names: Vec::new(),
            more_names: 0,
            reasons: Vec::new(),
            text: Vec::new(),
        };
        match &asked.subject {
            Ok(subject) => explanation.fill(subject, sides),
            Err((_, why)) => {
                let words = format!("no object can have this name: {why}");
                explanation.reason("InvalidName", words);
            }
        }
        let mut rows = explanation.names.iter().flat_map(|name| &name.rows);
        explanation.is_there = rows.any(|row| !row.addresses.is_empty() && !row.rules.is_empty());
        explanation.judge(asked, sides);
        explanation.text = render_text::lines(&explanation, asked);
        explanation
    }

    fn fill(&mut self, subject: &Subject, sides: Sides<'_>) {
        let mut names = match subject {
            Subject::Name(name) => [Some(name.clone()), name.wildcard()]
                .into_iter()
                .flatten()
                .filter(|name| sides.knows(name))
                .collect(),
            Subject::Address(address) => sides.names_with_address(*address),
        };
        names.sort_unstable();
        names.dedup();
        self.more_names = names.len().saturating_sub(MOST);
        names.truncate(MOST);
        let address = match subject {
            Subject::Address(address) => Some(*address),
            Subject::Name(_) => None,
        };
        let namespace = self.namespace.as_deref();
        let names = names
            .iter()
            .map(|name| sides.name(name, address, namespace));
        self.names = names.collect();
    }

    fn judge(&mut self, asked: &Asked, sides: Sides<'_>) {
        let sync = sides.sync;
        self.reasons.extend(sides.conditions());
        let skips = sides.skips(asked, &self.names);
        if !skips.is_empty() {
            let words = match asked.subject {
                Ok(Subject::Address(_)) => "no set may have it, whatever statuses say",
                _ => "the objects have addresses that no set may have",
            };
            self.reason("Skipped", format!("{words}: {}", skips.join("; ")));
        }
        // A skipped address is neither wanted nor unknown.
        let is_explained = !skips.is_empty() && !self.names.iter().any(|name| name.is_wanted);
        if !self.is_there && !is_explained && asked.subject.is_ok() && sides.replica.is_some() {
            self.absent(asked);
        }
        if self.is_there && !self.names.iter().any(|name| name.is_wanted) {
            let words = "the store does not want it, or no longer: see the differences";
            self.reason("Surplus", words);
        }
        let refused = self.names.iter().filter_map(|name| {
            let name = DnsName::parse(&name.name).ok()?;
            let wait = sync.refused_for(&name, sides.now)?;
            Some((name, wait.as_secs()))
        });
        for (name, seconds) in refused.collect::<Vec<_>>() {
            let words = format!(
                "the server refused to change the sets of {name}: the log says why; again in {seconds} s"
            );
            self.reason("Refused", words);
        }
    }

    fn absent(&mut self, asked: &Asked) {
        let rows = || self.names.iter().flat_map(|name| &name.rows);
        let whose = asked.whose();
        let is_address = matches!(asked.subject, Ok(Subject::Address(_)));
        if self.names.is_empty() {
            let words = if is_address {
                "no status and no set has it"
            } else {
                "no object has the name, and no set is for it"
            };
            self.reason("Unknown", words);
        } else if !self.names.iter().any(|name| name.is_wanted) {
            let words = if is_address {
                "no status has it, or none has it any more"
            } else {
                "no object of the name has an address, or none has one any more"
            };
            self.reason("NotWanted", words);
        } else if !rows().any(|row| !row.addresses.is_empty()) {
            if self.names.iter().any(|name| name.differences.is_some()) {
                let words = "the store wants it, and no set has it: see the differences";
                self.reason("NotWritten", words);
            } else {
                let words = "the store wants it, and there is no set for its family (IPv4 or IPv6): no rule refers to one, and \
                             ovn-kubernetes makes none in a cluster without that family";
                self.reason("NoSet", words);
            }
        } else if !rows().any(|row| !row.rules.is_empty()) {
            let words =
                format!("no rule{whose} refers to the sets that have it, so they pass no packets");
            self.reason("NoRule", words);
        } else {
            self.reason(
                "OtherSet",
                "the sets that rules refer to have no address of it",
            );
        }
    }

    fn reason(&mut self, reason: &'static str, words: impl Into<String>) {
        self.reasons.push(Reason::new(reason, words));
    }
}

impl Reason {
    fn new(reason: &'static str, words: impl Into<String>) -> Self {
        let words = words.into();
        Self { reason, words }
    }
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
            conditions.push(Reason::new(NO_DATABASE, words));
        }
        conditions.extend(self.idle.map(|idle| Reason::new("Idle", idle.as_str())));
        let absent = Absent::of(self.state());
        conditions.extend(absent.map(|it| Reason::new("AbsentObjects", it.to_string())));
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
        let differences = self.replica.and_then(|replica| {
            let plan = self.state().look(name, replica, self.now);
            let references = &self.state().references;
            let report = NameReport::of(name, &plan, replica, references);
            (!report.sets.is_empty()).then_some(report)
        });
        let objects = self.state().desired.objects_of(name);
        NameExplained {
            name: name.to_string(),
            objects: objects.map(ToString::to_string).collect(),
            is_wanted,
            rows,
            differences,
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
                address: address.to_string(),
                since_seconds: written.map(|at| self.now.saturating_duration_since(at).as_secs()),
                is_wanted: self.wants(name, address),
            }
        });
        let addresses = told.collect();
        let more_addresses = members.count();
        let set = SetName::from(row.name());
        let all = RuleReport::all(&set, replica, &self.state().references);
        let is_asked =
            |rule: &&RuleReport| namespace.is_none_or(|it| rule.owner.as_deref() == Some(it));
        let counting = all.iter().filter(is_asked);
        let rules: Vec<_> = counting.clone().take(MOST_RULES).cloned().collect();
        let counted = counting.count();
        RowExplained {
            uuid,
            set: row.name().to_owned(),
            controller: row.controller().unwrap_or_default().to_owned(),
            family: family.map_or("", proto::api::Family::as_str),
            addresses,
            more_addresses,
            more_rules: counted - rules.len(),
            rules_elsewhere: all.len() - counted,
            rules,
        }
    }
}
