//! The status of the writer.

use proto::{
    api::DnsName,
    facts::{DatabaseFacts, OvnWriterFacts, Problem, Problems, Query, SetFacts},
};

use super::{Sides, absent_sentence};

/// The most names without a rule that are listed.
const MOST: usize = 1_000;

const OUT_OF_SYNC: &str =
    "see `egress verify` and docs/troubleshooting.md#egressdnsnorthboundoutofsync";

/// The writer's part of the status.
#[derive(Clone, Debug, Default)]
pub struct WriterStatus {
    /// Objects that are absent, and sets that differ.
    pub problems: Problems,
    /// What is known of sets.
    pub facts: OvnWriterFacts,
}

impl Sides<'_> {
    /// The status. `remote` is the server of the session.
    pub fn status(&self, query: &Query, remote: String) -> WriterStatus {
        let state = self.state();
        let mut problems = Problems::default();
        if !state.absent().is_empty() {
            let remedy = "see docs/troubleshooting.md#egressdnsobjectsabsent";
            let sentence = absent_sentence(state.absent());
            problems.extend([Problem::fault("AbsentObjects", "objects", sentence, remedy)]);
        }
        let (differing, more) = self.differing();
        problems.extend(differing.iter().filter_map(of_set));
        problems.more += more;
        let mut names: Vec<&DnsName> = self.all_names().map(|(name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        let (sets, next) = self.page(query);
        WriterStatus {
            problems,
            facts: OvnWriterFacts {
                idle: self.idle,
                database: DatabaseFacts {
                    remote,
                    is_connected: self.replica.is_some(),
                    rows: self.replica.map(|replica| replica.0.len()),
                    is_managed: state.is_managed(),
                },
                objects: state.desired.objects(),
                name_count: names.len(),
                differences: state.differences.counts(),
                absent: state.absent().iter().map(ToString::to_string).collect(),
                unreferenced: self.unreferenced(names),
                sets,
                next,
                new_addresses: Vec::new(),
            },
        }
    }

    /// The first of these names that have addresses and no rule. Without a session nothing is known of rules.
    fn unreferenced(&self, names: Vec<&DnsName>) -> Vec<DnsName> {
        if self.replica.is_none() {
            return Vec::new();
        }
        let desired = &self.state().desired;
        let has_addresses = |name: &&DnsName| {
            let wanted = desired.wanted(name);
            wanted.is_some_and(|it| !it.addresses.all().is_empty())
        };
        let names = names.into_iter().filter(has_addresses);
        let unreferenced = names.filter(|name| !self.is_referenced(name));
        unreferenced.take(MOST).cloned().collect()
    }
}

fn of_set(set: &SetFacts) -> Option<Problem> {
    let difference = set.difference.as_ref().filter(|_| !set.is_being_written)?;
    let sentence = format!("{} set {}: {difference}", set.family, set.set);
    Some(Problem::fault(
        "SetDiffers",
        &set.name,
        sentence,
        OUT_OF_SYNC,
    ))
}
