//! Waits until the rules of a change are in the switches.

use std::{future::pending, time::Duration};

use ovsdb_replica::{Client, Event, Outcome, Refusal, TransactionId};
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{info, warn};

use super::{
    Evidence, Proof, Realizer,
    bump::{Progress, progress},
    tables::{self, ChassisPrivate, NbGlobal, Northd},
};

/// How long a bump may take. A chassis that needs longer counts as silent.
const DEADLINE: Duration = Duration::from_secs(1);

/// The time after which a southbound change is assumed to be in the switches. Of 50 first packets 50 passed after it,
/// with OVN 23.03 and 25.03.
const SLACK: Duration = Duration::from_millis(10);

/// The one that stands for all chassis without the southbound database.
const ALL: &str = "the slowest chassis";

const NO_NORTHBOUND: Proof = Proof::Unknown("there is no session with the northbound database");
const NO_SOUTHBOUND: Proof = Proof::Unknown("there is no session with the southbound database");

/// That the rules are in, or are not known to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) proof: Proof,
    pub(super) at: Instant,
}

/// The end of a transaction, or another event of a database.
pub(super) enum Step {
    Northbound(TransactionId, Outcome),
    Southbound(TransactionId, Outcome),
    Other,
}

/// The next event of either database. Cancel-safe.
pub(super) async fn next(
    northbound: &mut Client<NbGlobal>,
    southbound: Option<&mut Client<ChassisPrivate>>,
) -> Step {
    let southbound = async {
        match southbound {
            Some(southbound) => step("southbound", southbound.next().await),
            None => pending().await,
        }
    };
    tokio::select! {
        event = northbound.next() => match step("northbound", event) {
            Some((id, outcome)) => Step::Northbound(id, outcome),
            None => Step::Other,
        },
        ended = southbound => match ended {
            Some((id, outcome)) => Step::Southbound(id, outcome),
            None => Step::Other,
        },
    }
}

fn step<C>(database: &str, event: Event<C>) -> Option<(TransactionId, Outcome)> {
    match event {
        Event::Ended { id, outcome } => return Some((id, outcome)),
        Event::Down {
            error,
            remote,
            was_up: true,
            ..
        } => {
            warn!(%remote, %error, "the session with the {database} database ended: it is not known when changes are realized")
        }
        Event::Up { .. } | Event::Changed(_) | Event::Responsive(_) | Event::Down { .. } => {}
    }
    None
}

/// The row of `NB_Global`.
fn global_row(client: &Client<NbGlobal>) -> Option<&NbGlobal> {
    Some(client.replica()?.iter().next()?.1)
}

impl Realizer {
    /// Waits until the rules of this change, and of all earlier ones, are in.
    pub(super) async fn rules_are_in(&mut self, evidence: &Evidence) -> Rules {
        let until = Instant::now() + DEADLINE;
        let proof = self.proof(evidence, until).await;
        Rules {
            proof: proof.unwrap_or_else(|unproven| unproven),
            at: Instant::now(),
        }
    }

    /// The running ovn-northd.
    pub(super) fn northd(&self) -> Option<Northd> {
        Northd::of(global_row(&self.northbound)?)
    }

    /// An error is [`Proof::Late`] or [`Proof::Unknown`].
    async fn proof(&mut self, evidence: &Evidence, until: Instant) -> Result<Proof, Proof> {
        self.connected(until).await?;
        let northd = self.northd();
        let northd = northd.ok_or(Proof::Unknown("ovn-northd has not written its version"))?;
        if northd.bumps_cheaply {
            return self.bump(until).await;
        }
        match &mut self.southbound {
            Some(_) => self.southbound_shows(evidence, until).await,
            None => Err(Proof::Unknown(
                "ovn-northd is older than 24.09, and --sb is not set",
            )),
        }
    }

    /// Waits for sessions with the databases.
    async fn connected(&mut self, until: Instant) -> Result<(), Proof> {
        loop {
            let missing = if self.northbound.replica().is_none() {
                NO_NORTHBOUND
            } else if self.southbound.as_ref().is_some_and(is_down) {
                NO_SOUTHBOUND
            } else {
                return Ok(());
            };
            let next = next(&mut self.northbound, self.southbound.as_mut());
            timeout_at(until, next).await.map_err(|_| missing)?;
        }
    }

    /// Bumps `nb_cfg`, and waits until the chassis have followed.
    async fn bump(&mut self, until: Instant) -> Result<Proof, Proof> {
        let mut bumped = self.add_one(until).await?;
        loop {
            let global = global_row(&self.northbound);
            let global = global.ok_or(NO_NORTHBOUND)?;
            let (latest, slowest) = (global.nb_cfg, global.hv_cfg);
            match self.progress(bumped, latest, slowest) {
                Progress::In => return Ok(Proof::Confirmed),
                Progress::InButSilent => return Ok(Proof::Assumed("a chassis is silent")),
                Progress::Reset => {
                    info!("another client set nb_cfg of the northbound database back");
                    bumped = self.add_one(until).await?;
                    continue;
                }
                Progress::UnderWay => {}
            }
            let next = next(&mut self.northbound, self.southbound.as_mut());
            if timeout_at(until, next).await.is_err() {
                self.note_silent(bumped, latest);
                return match self.progress(bumped, latest, slowest) {
                    Progress::In | Progress::InButSilent => {
                        Ok(Proof::Assumed("a chassis is silent"))
                    }
                    Progress::UnderWay | Progress::Reset => {
                        Err(Proof::Late("no chassis followed within a second"))
                    }
                };
            }
        }
    }

    fn progress(&mut self, bumped: i64, latest: i64, slowest: i64) -> Progress {
        match &self.southbound {
            None => progress(
                bumped,
                latest,
                [(ALL, slowest)].into_iter(),
                &mut self.silent,
            ),
            Some(southbound) => {
                let rows = southbound.replica().into_iter().flat_map(|it| it.iter());
                let chassis = rows.map(|(_, row)| (row.name.as_str(), row.nb_cfg));
                progress(bumped, latest, chassis, &mut self.silent)
            }
        }
    }

    /// Remembers the chassis that did not follow, if others did.
    fn note_silent(&mut self, bumped: i64, latest: i64) {
        let replica = self.southbound.as_ref().and_then(Client::replica);
        let rows = replica.into_iter().flat_map(|it| it.iter());
        let (followed, late): (Vec<_>, Vec<_>) =
            rows.partition(|(_, row)| (bumped..=latest).contains(&row.nb_cfg));
        for (_, row) in late.into_iter().filter(|_| !followed.is_empty()) {
            if self.silent.insert(row.name.clone()) {
                warn!(
                    chassis = row.name,
                    "a chassis does not follow the northbound database: it is only assumed when changes are realized there"
                );
            }
        }
    }

    /// The number of a new bump.
    async fn add_one(&mut self, until: Instant) -> Result<i64, Proof> {
        let id = self
            .northbound
            .transact(tables::bump())
            .ok_or(NO_NORTHBOUND)?;
        loop {
            let next = next(&mut self.northbound, self.southbound.as_mut());
            match timeout_at(until, next).await {
                Err(_) => return Err(Proof::Late("the northbound database does not answer")),
                Ok(Step::Northbound(ended, outcome)) if ended == id => {
                    return match outcome {
                        Outcome::Done(results) => {
                            tables::bumped(&results).ok_or(Proof::Unknown("NB_Global has no row"))
                        }
                        Outcome::Refused(refusal) => Err(refused(&refusal)),
                        Outcome::Unknown(_) => {
                            self.northbound.restart();
                            Err(NO_NORTHBOUND)
                        }
                    };
                }
                Ok(_) if self.northbound.replica().is_none() => return Err(NO_NORTHBOUND),
                Ok(_) => {}
            }
        }
    }

    /// Waits for a change in the southbound database, and then a moment.
    async fn southbound_shows(
        &mut self,
        evidence: &Evidence,
        until: Instant,
    ) -> Result<Proof, Proof> {
        let operations = tables::shows(evidence, DEADLINE);
        let southbound = self.southbound.as_mut().ok_or(NO_SOUTHBOUND)?;
        let id = southbound.transact(operations).ok_or(NO_SOUTHBOUND)?;
        loop {
            let next = next(&mut self.northbound, self.southbound.as_mut());
            match timeout_at(until + DEADLINE, next).await {
                Err(_) => return Err(Proof::Late("the southbound database does not answer")),
                Ok(Step::Southbound(ended, outcome)) if ended == id => match outcome {
                    Outcome::Done(_) => break,
                    Outcome::Refused(refusal) => return Err(refused(&refusal)),
                    Outcome::Unknown(_) => {
                        self.southbound.as_mut().map(Client::restart);
                        return Err(NO_SOUTHBOUND);
                    }
                },
                Ok(_) if self.southbound.as_ref().is_none_or(is_down) => return Err(NO_SOUTHBOUND),
                Ok(_) => {}
            }
        }
        sleep(SLACK).await;
        Ok(Proof::Assumed(
            "ovn-northd is older than 24.09: the southbound database has the change for 10 ms",
        ))
    }
}

fn is_down(client: &Client<ChassisPrivate>) -> bool {
    client.replica().is_none()
}

fn refused(refusal: &Refusal) -> Proof {
    if refusal.reason.error == "timed out" {
        return Proof::Late(
            "the southbound database has no such change after a second, or the set changed again",
        );
    }
    warn!(%refusal, "a database refuses to show whether changes are realized");
    Proof::Unknown("a database refuses to show it: the log has its words")
}
