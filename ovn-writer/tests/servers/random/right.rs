//! The required final state.

use std::collections::BTreeSet;

use proto::api::Family;
use tests::{northbound::Row, ovnkube::set_name, wait::eventually};

use super::{
    steps::{COUNT, Step},
    told::Statement,
    world::{World, name},
};
use crate::harness::STORE;

impl World {
    /// Waits until the sets match the statuses, and checks that they stay so. If too many names in use are absent, the
    /// writer must report a suspect store; then the names return.
    pub(super) async fn ends_as_the_statuses_say(&mut self, what: &str) {
        self.end_faults().await;
        let is_suspect = eventually(what, async || match self.is_right() {
            Ok(()) => Ok(false),
            Err(_) if self.is_suspect() => Ok(true),
            Err(error) => Err(error),
        })
        .await;
        if is_suspect {
            for n in 0..COUNT {
                let addresses = vec![2, 3];
                self.happen(&Step::Status { name: n, addresses }).await;
            }
            eventually(what, async || self.is_right()).await;
        }
        self.writer.as_ref().unwrap().ready().await;
        for _ in 0..3 {
            self.happen(&Step::Delay).await;
        }
        self.is_right()
            .unwrap_or_else(|error| panic!("{what}: {error}"));
    }

    fn is_suspect(&self) -> bool {
        let condition = self.writer.as_ref().unwrap().store_condition();
        let reason = condition.reason.unwrap_or_default();
        !condition.holds && reason.contains("suspect")
    }

    /// Whether the database matches the folder.
    fn is_right(&self) -> Result<(), String> {
        let acls = ["--bare", "--columns=match", "list", "ACL"];
        let acls = self.database.northbound.nbctl(&acls)?;
        let known = self.told.now();
        for n in 0..COUNT {
            let name = name(n);
            for family in Family::ALL {
                let rows = self.database.northbound.sets(&name, family)?;
                let what = || {
                    format!(
                        "{name} {family}: {rows:?}, and the object says {:?}",
                        self.objects.get(&n)
                    )
                };
                let Some(statement) = self.objects.get(&n) else {
                    let is_used = acls.contains(&set_name(&name, family));
                    let may_stay = |row: &Row| {
                        let is_ours = row
                            .external_ids
                            .get("ovn-writer/created")
                            .is_some_and(|it| it == STORE);
                        let is_used = is_used && row.name == set_name(&name, family);
                        match (is_ours, is_used) {
                            (true, true) => row.addresses.is_empty(),
                            (true, false) => false,
                            // Addresses that other clients left while no writer ran are theirs.
                            (false, _) => row.addresses.is_empty() || !known.has_seen(&name),
                        }
                    };
                    if !rows.iter().all(may_stay) {
                        return Err(what());
                    }
                    continue;
                };
                let is_right = |row: &Row| match statement {
                    Statement::Addresses(addresses) => {
                        let is_of = |it: &&String| it.contains(':') == (family == Family::V6);
                        let wanted: BTreeSet<_> = addresses.iter().filter(is_of).cloned().collect();
                        row.addresses == wanted
                    }
                    Statement::Nothing | Statement::RuleEnded => true,
                };
                if rows.is_empty() || !rows.iter().all(is_right) {
                    return Err(what());
                }
            }
        }
        Ok(())
    }
}
