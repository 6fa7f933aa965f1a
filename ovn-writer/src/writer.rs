//! The loop around [`Reconciler`]: the store, the database and time on one side, transactions on the other.

use std::{
    collections::HashSet,
    future::{Future, pending},
    pin::{Pin, pin},
    time::Duration,
};

use futures_util::{Stream, StreamExt};
use proto::api::{DnsName, DnsNameResolver};
use runtime::{
    admin::{Gate, Health},
    store,
};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::{
    address_set::AddressSet,
    metrics::{self, EndLabel, OutcomeLabel},
    ovsdb::{self, Client, ClientOptions, Outcome, Remotes},
    sync::{BatchLimits, Finished, Reconciler, StartOver},
};

/// How long a transaction under way is waited for at the end; the program has 5 s in all.
const DRAIN: Duration = Duration::from_secs(4);

type Transaction = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Keeps the rows of a database as a store says.
pub struct Writer {
    sync: Reconciler,
    client: Client<AddressSet>,
    in_flight: Option<Transaction>,
    /// Whether the store can be read, and was.
    store_synced: bool,
    store_gate: Gate,
    database_gate: Gate,
}

impl Writer {
    /// Nothing is done before [`Writer::run`]. `health` gets two gates: the store was read, and the database was read and is as
    /// the store says.
    pub fn new(remotes: &Remotes, options: ClientOptions, health: &Health) -> Self {
        Self {
            sync: Reconciler::new(BatchLimits::default()),
            client: Client::new(remotes, options),
            in_flight: None,
            store_synced: false,
            store_gate: health.gate("store", "the store has not been read yet"),
            database_gate: health.gate("northbound", format!("not connected to {remotes} yet")),
        }
    }

    /// Works until the token is cancelled; then waits for the transaction under way, at most 4 s.
    ///
    /// # Errors
    /// The end of `objects`, which has none.
    pub async fn run(
        mut self,
        objects: impl Stream<Item = store::Event<DnsNameResolver>>,
        token: CancellationToken,
    ) -> anyhow::Result<()> {
        let mut objects = pin!(objects);
        loop {
            self.start_transaction();
            self.report();
            tokio::select! {
                () = token.cancelled() => break,
                event = objects.next() => {
                    let event = event.ok_or_else(|| anyhow::anyhow!("the watch of the store ended"))?;
                    self.store_changed(event);
                }
                event = self.client.next() => self.database_changed(event),
                outcome = ended(&mut self.in_flight) => self.transaction_ended(outcome),
                () = until(self.sync.next_retry()) => {}
            }
        }
        if let Some(transaction) = self.in_flight.take() {
            match timeout(DRAIN, transaction).await {
                Ok(outcome) => self.transaction_ended(outcome),
                Err(_) => warn!("the server did not answer the last transaction in time"),
            }
        }
        Ok(())
    }

    fn start_transaction(&mut self) {
        // Before the first reading of the store there is nothing to want.
        let Some(replica) = self.client.replica() else {
            return;
        };
        let Some(operations) = self.sync.next_transaction(replica, now()) else {
            return;
        };
        match self.client.transact(operations) {
            Some(transaction) => self.in_flight = Some(Box::pin(transaction)),
            None => self.sync.database_lost(),
        }
    }

    fn store_changed(&mut self, event: store::Event<DnsNameResolver>) {
        match &event {
            store::Event::Synced(objects) => {
                info!(objects = objects.len(), "the store was read");
                self.store_synced = true;
                self.store_gate.ready();
            }
            store::Event::OutOfSync(reason) => {
                self.store_synced = false;
                self.store_gate.not_ready(reason.as_str());
            }
            store::Event::Applied(_) | store::Event::Deleted(_) | store::Event::Undecodable(_) => {}
        }
        self.sync.store_changed(event, now());
    }

    fn database_changed(&mut self, event: ovsdb::Event<HashSet<DnsName>>) {
        match event {
            ovsdb::Event::Changed(names) => self.sync.rows_changed(names),
            ovsdb::Event::Up { remote, resumed } => {
                let rows = self.client.replica().map_or(0, ovsdb::Replica::len);
                info!(%remote, rows, resumed, "the northbound database was read");
                metrics::session();
                self.database_gate
                    .not_ready("the first synchronisation is under way");
                self.sync.database_read();
            }
            ovsdb::Event::Down {
                remote,
                was_up,
                error,
            } => {
                if was_up {
                    metrics::session_end(EndLabel::Lost);
                    warn!(%remote, %error, "the session with the northbound database ended");
                } else {
                    metrics::connection_failure();
                }
                self.database_gate.not_ready(format!("{remote}: {error}"));
                if self.in_flight.take().is_some() {
                    metrics::transaction(OutcomeLabel::Unknown);
                }
                self.sync.database_lost();
            }
        }
    }

    fn transaction_ended(&mut self, outcome: Outcome) {
        self.in_flight = None;
        // What the transaction changed, and all that came before it, must be known before anything follows from its outcome.
        while let Some(event) = self.client.ready() {
            self.database_changed(event);
        }
        metrics::transaction(OutcomeLabel::of(&outcome));
        let Some(replica) = self.client.replica() else {
            return;
        };
        match self.sync.finished(outcome, replica, now()) {
            Finished::Done(done) => metrics::done(&done),
            Finished::Refused(refusal) => debug!(%refusal, "the server refused a transaction"),
            Finished::StartOver(reason) => {
                warn!(%reason, "reading the northbound database anew");
                metrics::session_end(EndLabel::StartOver);
                self.database_gate.not_ready(reason.to_string());
                match reason {
                    StartOver::Unknown(_) => self.client.restart(),
                    StartOver::Ghost(_) => self.client.start_over(),
                }
                self.sync.database_lost();
            }
        }
    }

    /// Says what is true now.
    fn report(&self) {
        let rows = self.client.replica().map(ovsdb::Replica::len);
        let idle = self.store_synced && rows.is_some() && self.sync.is_idle();
        let (desired, refused) = (self.sync.desired(), self.sync.refused());
        match refused {
            _ if !idle => {}
            0 => self.database_gate.ready(),
            // One name that the server refuses shall not take the others out.
            _ => self.database_gate.impaired(
                "it is not in sync: the server refuses changes, for the names in the log",
            ),
        }
        metrics::state(&metrics::State {
            desired,
            rows,
            refused,
            in_sync: idle && refused == 0,
        });
    }
}

/// The time, which tests may pause.
fn now() -> std::time::Instant {
    Instant::now().into_std()
}

async fn ended(transaction: &mut Option<Transaction>) -> Outcome {
    match transaction {
        Some(transaction) => transaction.await,
        None => pending().await,
    }
}

async fn until(time: Option<std::time::Instant>) {
    match time {
        Some(time) => sleep_until(time.into()).await,
        None => pending().await,
    }
}
