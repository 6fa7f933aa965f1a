//! A continuously replicated database: connect, check, read, follow. Any inconsistency leads to a new start.

use std::{future::Future, mem, pin::Pin, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};

use super::{
    error::Error,
    monitor::{MonitorId, Update},
    reconnect::{LONGEST_WAIT, ReconnectSchedule},
    remote::{Remote, Remotes},
    replica::Replica,
    server::{Progress, SERVER_DATABASE, ServedDatabase},
    session::{ResumePoint, Session, SessionEvent, SessionOptions, TransactionId},
    tables::Tables,
    transact::{Operation, Outcome},
};

/// The database to replicate, and the options of its connection.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The name of the database.
    pub database: String,
    /// The time-out after which the outcome of a transaction counts as unknown.
    pub transact_deadline: Duration,
    /// How to connect.
    pub session: SessionOptions,
}

impl ClientOptions {
    /// 10 s for a transaction, since a leader change takes about 1.5 s, and the defaults of all else.
    pub fn new(database: impl Into<String>) -> Self {
        Self {
            database: database.into(),
            transact_deadline: Duration::from_secs(10),
            session: SessionOptions::default(),
        }
    }
}

/// A change of the replica. `C` is the [`Tables::Changes`] of the tables.
#[derive(Debug)]
pub enum Event<C> {
    /// The database was read. Only the new replica is valid.
    Up {
        /// The server.
        remote: Remote,
        /// Whether only the changes since the last session were read.
        resumed: bool,
    },
    /// Rows with these keys changed, if any; or the number of rows that [count](super::Record::counts) became zero or
    /// non-zero.
    Changed(C),
    /// A transaction ended. The replica contains its changes and all earlier ones.
    Ended {
        /// The transaction.
        id: TransactionId,
        /// Its outcome.
        outcome: Outcome,
    },
    /// There is no replica, until the next [`Event::Up`].
    Down {
        /// The remote that was lost, or not reached.
        remote: Remote,
        /// Whether there was a replica before.
        was_up: bool,
        /// The pending transactions. Their outcome is [unknown](Outcome::Unknown), and there is no event for it.
        unknown: Vec<TransactionId>,
        /// The reason.
        error: Error,
    },
}

/// Tables of a database, replicated for as long as [`Client::next`] is called.
pub struct Client<T: Tables> {
    options: Arc<ClientOptions>,
    reconnect: ReconnectSchedule,
    state: ClientState<T>,
}

enum ClientState<T: Tables> {
    Connecting(Remote, Connecting<T>),
    Up(Box<Link<T>>),
}

type Connecting<T> =
    Pin<Box<dyn Future<Output = Result<Box<Link<T>>, (Error, Carryover<T>)>> + Send>>;

/// The state that outlives a session.
struct Carryover<T: Tables> {
    /// Whether a server of a cluster must be its leader. Followers serve data that lag by a round trip, and forward
    /// transactions to the leader. With a single remote there is no choice.
    leader_only: bool,
    progress: Progress,
    kept: Option<ResumePoint<T>>,
}

/// A session with its replica.
struct Link<T: Tables> {
    remote: Remote,
    session: Session,
    id: MonitorId,
    leader_only: bool,
    progress: Progress,
    server: Replica<ServedDatabase>,
    monitored: ResumePoint<T>,
    resumed: bool,
    since: Instant,
}

impl<T: Tables> Client<T> {
    /// A client that connects when [`Client::next`] is called.
    pub fn new(remotes: &Remotes, options: ClientOptions) -> Self {
        let options = Arc::new(options);
        let mut reconnect = ReconnectSchedule::new(remotes);
        let carryover = Carryover {
            leader_only: remotes.are_several(),
            progress: Progress::default(),
            kept: None,
        };
        let state = ClientState::connecting(&mut reconnect, &options, carryover, Duration::ZERO);
        Self {
            options,
            reconnect,
            state,
        }
    }

    /// The replica, unless the client is [down](Event::Down).
    pub fn replica(&self) -> Option<&T::Replica> {
        match &self.state {
            ClientState::Connecting(..) => None,
            ClientState::Up(link) => Some(&link.monitored.replica),
        }
    }

    /// The server of the session, or the one that is tried next.
    pub fn remote(&self) -> &Remote {
        match &self.state {
            ClientState::Connecting(remote, _) => remote,
            ClientState::Up(link) => &link.remote,
        }
    }

    /// Waits for the next event. Cancel-safe.
    pub async fn next(&mut self) -> Event<T::Changes> {
        loop {
            match &mut self.state {
                ClientState::Connecting(remote, connecting) => match connecting.await {
                    Ok(link) => {
                        let (remote, resumed) = (link.remote.clone(), link.resumed);
                        self.state = ClientState::Up(link);
                        return Event::Up { remote, resumed };
                    }
                    Err((error, carryover)) => {
                        let remote = remote.clone();
                        self.connect(carryover, error.least_delay());
                        return Event::Down {
                            remote,
                            was_up: false,
                            unknown: Vec::new(),
                            error,
                        };
                    }
                },
                ClientState::Up(link) => match link.next().await {
                    Ok(None) => {}
                    Ok(Some(event)) => return event,
                    Err(error) => {
                        let (remote, unknown) = (link.remote.clone(), link.session.under_way());
                        self.end(error.leaves_the_replica_intact(), error.least_delay());
                        return Event::Down {
                            remote,
                            was_up: true,
                            unknown,
                            error,
                        };
                    }
                },
            }
        }
    }

    /// Sends a transaction; [`Client::next`] reports its [end](Event::Ended). `None` if the client is
    /// [down](Event::Down). Bytes that the socket does not take at once are sent in [`Client::next`].
    pub fn transact(&mut self, operations: Vec<Operation>) -> Option<TransactionId> {
        let ClientState::Up(link) = &mut self.state else {
            return None;
        };
        let (database, deadline) = (&self.options.database, self.options.transact_deadline);
        Some(link.session.transact(database, operations, deadline))
    }

    /// Ends the session, if there is one, connects again, and reads the changes since. Call it after
    /// [`Outcome::Unknown`]. No other outcome of the old session is reported after it.
    pub fn restart(&mut self) {
        self.end(true, Duration::ZERO);
    }

    /// Ends the session, if there is one, connects again, and reads everything. Call it when the replica cannot be
    /// right.
    pub fn start_over(&mut self) {
        self.end(false, Duration::ZERO);
    }

    fn end(&mut self, keep_replica: bool, least_delay: Duration) {
        let ClientState::Up(link) = &mut self.state else {
            return;
        };
        // A session that ends soon after its start counts as a failed attempt.
        if link.since.elapsed() > LONGEST_WAIT {
            self.reconnect.succeeded();
        }
        let carryover = link.remember(keep_replica);
        self.connect(carryover, least_delay);
    }

    fn connect(&mut self, carryover: Carryover<T>, least_delay: Duration) {
        self.state =
            ClientState::connecting(&mut self.reconnect, &self.options, carryover, least_delay);
    }
}

impl<T: Tables> ClientState<T> {
    fn connecting(
        reconnect: &mut ReconnectSchedule,
        options: &Arc<ClientOptions>,
        mut carryover: Carryover<T>,
        least_delay: Duration,
    ) -> Self {
        let (remote, delay) = reconnect.next();
        let delay = delay.max(least_delay);
        let (target, options) = (remote.clone(), options.clone());
        let connecting = async move {
            sleep(delay).await;
            match Link::open(target, &options, &mut carryover).await {
                Ok(link) => Ok(Box::new(link)),
                Err(error) => Err((error, carryover)),
            }
        };
        Self::Connecting(remote, Box::pin(connecting))
    }
}

impl<T: Tables> Link<T> {
    async fn open(
        remote: Remote,
        options: &ClientOptions,
        carryover: &mut Carryover<T>,
    ) -> Result<Self, Error> {
        let mut session = Session::open(&remote, &options.session).await?;
        let server = session.served_databases().await?;
        let requests = T::requests(&session.schema(&options.database).await?)?;
        let leader_only = carryover.leader_only;
        carryover
            .progress
            .check(&server, &options.database, leader_only, Instant::now())?;
        let id = MonitorId::new("replica", &options.database);
        let (monitored, resumed) = session.monitor(&id, requests, &mut carryover.kept).await?;
        Ok(Self {
            remote,
            session,
            id,
            leader_only,
            progress: carryover.progress,
            server,
            monitored,
            resumed,
            since: Instant::now(),
        })
    }

    /// Applies the next message of the session. Returns its event, other than [`Event::Up`] and [`Event::Down`], if it
    /// has one.
    async fn next(&mut self) -> Result<Option<Event<T::Changes>>, Error> {
        let notification = match self.session.next().await? {
            SessionEvent::Notification(notification) => notification,
            SessionEvent::Ended(id, outcome) => return Ok(Some(Event::Ended { id, outcome })),
        };
        let mut changes = T::Changes::default();
        let replica = &mut self.monitored.replica;
        let any_counted = T::counted(replica) > 0;
        match Update::parse(&notification)? {
            Update::Rows { id, last, updates } if id == self.id => {
                T::apply(replica, updates, &mut changes)?;
                self.monitored.last = last;
            }
            Update::Rows { id, updates, .. } if id.1 == SERVER_DATABASE => {
                ServedDatabase::apply(&mut self.server, updates, &mut Default::default())?;
                self.progress
                    .check(&self.server, &self.id.1, self.leader_only, Instant::now())?;
            }
            Update::Rows { id, .. } => {
                return Err(Error::Unexpected(format!("update of {:?}", id.0)));
            }
            Update::Canceled(id) => return Err(Error::Canceled(id.1)),
        }
        let counts_any = T::counted(&self.monitored.replica) > 0;
        let is_news = !T::nothing_changed(&changes) || any_counted != counts_any;
        Ok(is_news.then_some(Event::Changed(changes)))
    }

    /// Takes the state that the next session needs; this session is unusable afterwards.
    fn remember(&mut self, keep_replica: bool) -> Carryover<T> {
        let ResumePoint {
            replica,
            last,
            requests,
        } = &mut self.monitored;
        let kept = ResumePoint {
            replica: mem::take(replica),
            last: mem::take(last),
            requests: mem::take(requests),
        };
        Carryover {
            leader_only: self.leader_only,
            progress: self.progress,
            kept: keep_replica.then_some(kept),
        }
    }
}
