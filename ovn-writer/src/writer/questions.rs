//! Queries to a running writer.

use proto::facts::{Comparison, Idle, RowAddress};
use runtime::clock::Clock;

use super::{Mode, Writer, now};
use crate::facts::{Sides, WriterQuery, comparison::compare};

impl Writer {
    /// Answers a query, whose sender may be gone.
    pub(super) fn answer(&mut self, question: WriterQuery) {
        let idle = match &self.mode {
            Mode::DryRun(_) => Some(Idle::DryRun),
            Mode::Write(leader) if !leader.is_leading() => Some(Idle::Standby),
            Mode::Write(_) => None,
        };
        let leader = idle.is_none();
        let sides = Sides {
            sync: &self.sync,
            replica: self.client.replica(),
            idle,
            now: now(),
        };
        let _gone = match question {
            WriterQuery::Status(query, sender) => {
                let remote = self.client.remote().to_string();
                let mut status = sides.status(&query, remote);
                status.facts.new_addresses = self.new_addresses(query.recent);
                sender.send((status, leader)).is_err()
            }
            WriterQuery::Explain(asked, sender) => {
                sender.send((sides.explain(&asked), leader)).is_err()
            }
            WriterQuery::Verify(sender) => sender.send((self.comparison(), leader)).is_err(),
        };
    }

    /// The differences between the store and the database, or why they are not known.
    fn comparison(&self) -> Comparison {
        let state = self.sync.state();
        let why = match self.client.replica().filter(|_| state.is_compared) {
            _ if self.store_problem.is_some() => "the store cannot be read",
            None => "the northbound database was not read to its end",
            Some(replica) => return compare(state, replica, now()),
        };
        Comparison {
            not_compared: Some(why.to_owned()),
            ..Comparison::default()
        }
    }

    /// The last new addresses of rows, at the time of day.
    fn new_addresses(&self, most: usize) -> Vec<RowAddress> {
        let (wall, now) = (Clock::system().now(), now());
        let at = |at| wall.before(now.saturating_duration_since(at));
        let all = &self.sync.new_addresses;
        let skipped = all.iter().count().saturating_sub(most);
        let addresses = all.iter().skip(skipped).map(|new| RowAddress {
            rule: new.rule.to_string(),
            address: new.address,
            received_at: at(new.received),
            committed_at: at(new.committed),
            set: new.set.to_string(),
        });
        addresses.collect()
    }
}
