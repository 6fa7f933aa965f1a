//! Queries to a running writer, and permissions for it.

use tracing::warn;

use super::{Mode, Writer, now};
use crate::{
    explain::{Explanation, Sets, Sides},
    inspect::{NotPermitted, WriterQuery},
};

impl Writer {
    /// Answers a query, whose sender may be gone.
    pub(super) fn answer(&mut self, question: WriterQuery) {
        let idle = match &self.mode {
            Mode::DryRun(_) => Some("this process writes nothing: --dry-run"),
            Mode::Write(leader) if !leader.is_leading() => {
                Some("this process stands by: another one writes")
            }
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
            WriterQuery::Sets(filter, sender) => sender.send(Sets::new(&filter, sides)).is_err(),
            WriterQuery::AllowEmpty(sender) => sender.send(self.allow_empty(idle)).is_err(),
        };
    }

    /// Permits to empty the names that are absent now.
    fn allow_empty(&mut self, idle: Option<&'static str>) -> Result<Vec<String>, NotPermitted> {
        if let Some(idle) = idle {
            return Err(NotPermitted::Idle(idle));
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
