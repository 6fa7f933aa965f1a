//! Queries to a running writer.

use proto::facts::{RowAddress, RowAddresses};
use runtime::clock::Clock;

use super::{Mode, Writer, now};
use crate::{
    explain::{Explanation, Idle, Sets, Sides, Snapshot},
    inspect::WriterQuery,
    verify::{Comparison, Verified},
};

impl Writer {
    /// Answers a query, whose sender may be gone.
    pub(super) fn answer(&mut self, question: WriterQuery) {
        let idle = match &self.mode {
            Mode::DryRun(_) => Some(Idle::DryRun),
            Mode::Write(leader) if !leader.is_leading() => Some(Idle::Standby),
            Mode::Write(_) => None,
        };
        let sides = Sides {
            sync: &self.sync,
            replica: self.client.replica(),
            idle,
            now: now(),
        };
        let _gone = match question {
            WriterQuery::Explain(asked, sender) => {
                sender.send(Explanation::new(&asked, sides)).is_err()
            }
            WriterQuery::Verify(sender) => sender.send(self.comparison()).is_err(),
            WriterQuery::Sets(query, sender) => sender.send(Sets::new(&query, sides)).is_err(),
            WriterQuery::Snapshot(sender) => {
                let remote = self.client.remote().to_string();
                let snapshot = Snapshot::new(sides, remote);
                sender.send(snapshot).is_err()
            }
            WriterQuery::NewAddresses(sender) => sender.send(self.new_addresses()).is_err(),
        };
    }

    /// The differences between the store and the database, or why they are not known.
    fn comparison(&self) -> Result<Comparison, &'static str> {
        if self.store_problem.is_some() {
            return Err("the store cannot be read");
        }
        let state = self.sync.state();
        let replica = self.client.replica().filter(|_| state.is_compared);
        let replica = replica.ok_or("the northbound database was not read to its end")?;
        Ok(Verified::known(state, replica, now()).into())
    }

    /// The last new addresses of rows, at the time of day.
    fn new_addresses(&self) -> RowAddresses {
        let (wall, now) = (Clock::system().now(), now());
        let at = |at| wall.before(now.saturating_duration_since(at));
        let addresses = self.sync.new_addresses.iter().map(|new| RowAddress {
            rule: new.rule.to_string(),
            address: new.address,
            received_at: at(new.received),
            committed_at: at(new.committed),
            set: new.set.to_string(),
        });
        RowAddresses {
            now: wall,
            new_addresses: addresses.collect(),
        }
    }
}
