//! When a change of an address set is realized: after the northbound database has it, OVN and the switch still follow.
//!
//! | stage | proof |
//! |---|---|
//! | committed | the northbound database acknowledged the transaction |
//! | rules are in | each chassis reports the number of a bump: `nb_cfg` of `NB_Global` plus one (ovn-nb(5)) |
//! | cached flows are gone | the revalidators of `ovs-vswitchd` have looked at all flows of the datapath |
//!
//! A bump is cheap since OVN 24.09. An older ovn-northd computes all flows again for it. There the address in the
//! southbound database and a short wait count as assumed.
//!
//! A [`Ticket`] is answered once, when its change is realized or that cannot be known. One bump is under way at a time;
//! tickets that come meanwhile share the next one. Without a ticket nothing is sent.
//!
//! | module | content |
//! |---|---|
//! | `tables` | rows of both databases, and the operations |
//! | `bump` | the progress of a bump; no IO |
//! | `rules` | waits until the rules are in |
//! | `revalidators` | waits until cached flows are gone |
//! | [`view`] | the state, for administrators |

mod bump;
mod revalidators;
mod rules;
mod tables;
pub mod view;

use std::{
    collections::BTreeSet,
    future::{Future, pending},
    path::PathBuf,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use ovsdb_replica::{Client, ClientOptions, Remotes};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinSet,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use self::{
    revalidators::{Passes, Revalidators},
    rules::Rules,
    tables::{ChassisPrivate, NbGlobal},
    view::RealizedView,
};
pub use crate::address_set::Evidence;
use crate::metrics;

/// The name of the southbound database.
const SOUTHBOUND: &str = "OVN_Southbound";

/// How often changes are followed at most while a reader of `/watch` is there: a bump costs some milliseconds of CPU.
const WATCHED_INTERVAL: Duration = Duration::from_millis(100);

/// The maximum number of tickets that share a bump.
const MOST_AT_ONCE: usize = 10_000;

/// Where to ask.
#[derive(Clone, Debug)]
pub struct RealizedOptions {
    /// The northbound database.
    pub northbound: Remotes,
    /// How to connect to it; the same for the southbound one.
    pub client: ClientOptions,
    /// The southbound database; without it `hv_cfg` of the northbound one shows the slowest chassis.
    pub southbound: Option<Remotes>,
    /// The control socket of `ovs-vswitchd`, or the folder with its socket and its pid file.
    pub vswitchd: Option<PathBuf>,
}

/// A change that the northbound database acknowledged.
#[derive(Clone, Debug)]
pub struct Committed {
    /// When the store changed, if the change came from there.
    pub since: Option<std::time::Instant>,
    /// The acknowledgement.
    pub at: std::time::Instant,
    /// Its sign in the southbound database.
    pub evidence: Evidence,
}

/// How far it is known that the rules are in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Proof {
    /// Each chassis reported it.
    Confirmed,
    /// They should be, for this reason.
    Assumed(&'static str),
    /// They were not in time, for this reason.
    Late(&'static str),
    /// It is not known, for this reason.
    Unknown(&'static str),
}

/// The datapath's cached flows, which outlive the rules.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CachedFlows {
    /// The revalidators passed since the rules are in.
    Gone(Instant),
    /// It is not known, for this reason.
    Unknown(String),
}

/// The answer to a ticket.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Realized {
    /// Whether the rules are in.
    pub proof: Proof,
    /// Since when that is known; how long it was waited for, if they are late.
    pub rules_at: Instant,
    /// Whether flows from before are gone.
    pub cached_flows: CachedFlows,
}

impl Realized {
    /// From where, until what, and how long.
    fn times(&self, committed: &Committed) -> Vec<(&'static str, &'static str, Duration)> {
        let flows = match self.cached_flows {
            CachedFlows::Gone(at) => Some(("cached_flows", at)),
            CachedFlows::Unknown(_) => None,
        };
        let is_known = !matches!(self.proof, Proof::Unknown(_));
        let rules = is_known.then_some(("rules", self.rules_at));
        let from = [("commit", Some(committed.at)), ("event", committed.since)];
        let until = rules.into_iter().chain(flows);
        let times = until.flat_map(|(until, at)| {
            from.into_iter().filter_map(move |(from, since)| {
                let took = at.into_std().saturating_duration_since(since?);
                Some((from, until, took))
            })
        });
        times.collect()
    }
}

/// The answer to come. It is an error if the program ends before.
#[derive(Debug)]
pub struct Ticket(oneshot::Receiver<Realized>);

impl Future for Ticket {
    type Output = Result<Realized, oneshot::error::RecvError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context)
    }
}

/// Takes changes for a [`Realizer`].
#[derive(Clone, Debug)]
pub struct RealizedHandle {
    requests: mpsc::UnboundedSender<Request>,
    view: watch::Receiver<RealizedView>,
}

#[derive(Debug)]
struct Request {
    committed: Committed,
    answer: oneshot::Sender<Realized>,
}

impl RealizedHandle {
    /// Asks when a change is realized.
    pub fn ticket(&self, committed: Committed) -> Ticket {
        let (answer, ticket) = oneshot::channel();
        // At the end of the program the ticket is an error.
        let _ended = self.requests.send(Request { committed, answer });
        Ticket(ticket)
    }

    /// The current state.
    pub fn view(&self) -> RealizedView {
        self.view.borrow().clone()
    }
}

/// Asks about changes for which no ticket waits, at most once in an interval. The answers go to the metrics.
#[derive(Debug)]
pub struct Samples {
    handle: RealizedHandle,
    interval: Duration,
    last: Option<std::time::Instant>,
}

impl Samples {
    /// The first change is a sample.
    pub fn new(handle: RealizedHandle, interval: Duration) -> Self {
        let last = None;
        Self {
            handle,
            interval,
            last,
        }
    }

    /// Takes note of a change. While changes are watched, it returns the ticket, or `None` if another change was followed
    /// just before.
    pub fn committed(&mut self, committed: Committed, is_watched: bool) -> Option<Ticket> {
        let interval = match is_watched {
            true => self.interval.min(WATCHED_INTERVAL),
            false => self.interval,
        };
        let is_recent = |last| committed.at.saturating_duration_since(last) < interval;
        if self.last.is_some_and(is_recent) {
            return None;
        }
        self.last = Some(committed.at);
        let ticket = self.handle.ticket(committed);
        is_watched.then_some(ticket)
    }

    /// The current state.
    pub fn view(&self) -> RealizedView {
        self.handle.view()
    }
}

/// Answers tickets.
pub struct Realizer {
    requests: mpsc::UnboundedReceiver<Request>,
    northbound: Client<NbGlobal>,
    southbound: Option<Client<ChassisPrivate>>,
    revalidators: Option<Revalidators>,
    /// The chassis that did not follow an earlier bump in time.
    silent: BTreeSet<String>,
    /// Tickets whose rules are in.
    answers: JoinSet<()>,
    view: watch::Sender<RealizedView>,
}

impl Realizer {
    /// Creates it; it starts with [`Realizer::run`].
    pub fn new(options: &RealizedOptions) -> (Self, RealizedHandle) {
        let (sender, requests) = mpsc::unbounded_channel();
        let southbound = options.southbound.as_ref().map(|remotes| {
            let mut client = options.client.clone();
            SOUTHBOUND.clone_into(&mut client.database);
            Client::new(remotes, client)
        });
        let view = watch::Sender::new(RealizedView::new(options));
        let handle = RealizedHandle {
            requests: sender,
            view: view.subscribe(),
        };
        let realizer = Self {
            requests,
            northbound: Client::new(&options.northbound, options.client.clone()),
            southbound,
            revalidators: options.vswitchd.clone().map(Revalidators::new),
            silent: BTreeSet::new(),
            answers: JoinSet::new(),
            view,
        };
        (realizer, handle)
    }

    /// Works until the token is cancelled.
    ///
    /// # Errors
    /// None; the result is that of a task of the program.
    pub async fn run(mut self, token: CancellationToken) -> anyhow::Result<()> {
        let work = async {
            let mut requests = Vec::new();
            loop {
                self.next_requests(&mut requests).await;
                let Some(last) = requests.last() else {
                    continue;
                };
                let evidence = last.committed.evidence.clone();
                // A pass that ends from here on may be the one after the change.
                let passes = self.revalidators.as_ref().map(Revalidators::watch);
                let rules = self.rules_are_in(&evidence).await;
                self.describe();
                let requests = std::mem::take(&mut requests);
                let view = self.view.clone();
                self.answers.spawn(answer(requests, rules, passes, view));
                while self.answers.try_join_next().is_some() {}
            }
        };
        token.run_until_cancelled(work).await;
        Ok(())
    }

    /// Waits for tickets, and follows the databases meanwhile.
    async fn next_requests(&mut self, requests: &mut Vec<Request>) {
        tokio::select! {
            count = self.requests.recv_many(requests, MOST_AT_ONCE) => if count == 0 {
                // All handles are gone; the end of the program follows.
                pending::<()>().await;
            },
            _ = rules::next(&mut self.northbound, self.southbound.as_mut()) => {}
        }
    }

    /// Shows what this knows about the databases.
    fn describe(&self) {
        let northd = self.northd().map(|northd| northd.version.clone());
        metrics::silent_chassis(self.silent.len());
        self.view.send_modify(|view| {
            view.northd = northd;
            view.silent_chassis = self.silent.iter().cloned().collect();
        });
    }
}

/// Waits until cached flows are gone, and answers.
async fn answer(
    requests: Vec<Request>,
    rules: Rules,
    passes: Option<Passes>,
    view: watch::Sender<RealizedView>,
) {
    let cached_flows = match (rules.proof, passes) {
        (Proof::Late(_) | Proof::Unknown(_), _) => {
            CachedFlows::Unknown("the rules may not be in".to_owned())
        }
        (_, None) => CachedFlows::Unknown("--vswitchd-ctl is not set".to_owned()),
        (_, Some(passes)) => match passes.since(rules.at).await {
            Ok(at) => CachedFlows::Gone(at),
            Err(reason) => CachedFlows::Unknown(reason),
        },
    };
    let realized = Realized {
        proof: rules.proof,
        rules_at: rules.at,
        cached_flows,
    };
    for Request { committed, answer } in requests {
        metrics::realized(realized.proof.as_str(), realized.times(&committed));
        view.send_modify(|view| view.record(&committed, &realized));
        // The waiting task may have given up.
        let _gone = answer.send(realized.clone());
    }
}

#[cfg(test)]
mod tests;
