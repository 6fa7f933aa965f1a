//! Queries to a running writer, and permissions for it.

use tracing::warn;

use super::{Mode, Writer, now};
use crate::{
    explain::{Explanation, Idle, Sets, Sides, Snapshot},
    inspect::{NotPermitted, WriterQuery},
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
        let realized = self.samples.as_ref().map(|it| it.view().at(now()));
        let sides = Sides {
            sync: &self.sync,
            replica: self.client.replica(),
            idle,
            realized: realized.as_ref(),
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
                let snapshot = Snapshot::new(sides, remote, self.client.is_responsive());
                sender.send(snapshot).is_err()
            }
            WriterQuery::AllowEmpty(sender) => sender.send(self.allow_empty(idle)).is_err(),
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

    /// Permits to empty the names that are absent now.
    fn allow_empty(&mut self, idle: Option<Idle>) -> Result<Vec<String>, NotPermitted> {
        if let Some(idle) = idle {
            return Err(NotPermitted::Idle(idle.as_str()));
        }
        if self.store_problem.is_some() {
            return Err(NotPermitted::Unknown("the store cannot be read"));
        }
        if self.client.replica().is_none() || !self.sync.state().is_compared {
            let words = "the northbound database was not read to its end";
            return Err(NotPermitted::Unknown(words));
        }
        if self.sync.state().desired.has_unknown_object() {
            return Err(NotPermitted::Unknown(
                "an object cannot be read, and may be the one of any name: mend or delete it first",
            ));
        }
        let names = self.sync.allow_empty();
        warn!(
            names = names.len(),
            "an administrator permitted this program to empty the address sets of absent names"
        );
        Ok(names.iter().map(ToString::to_string).collect())
    }
}
