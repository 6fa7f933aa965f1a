//! A database that is kept replicated: connects, checks, reads, follows, and starts over when anything is in doubt.

use std::{collections::HashSet, future::Future, pin::Pin, sync::Arc, time::Duration};

use futures_util::FutureExt;
use tokio::time::{Instant, sleep};

use super::{
    error::Error,
    monitor::{MonitorId, MonitorRequest, Update},
    remote::{Attempts, Backoff, Remote, Remotes},
    replica::{Record, Replica},
    schema::RequiredColumn,
    server::{self, COLUMNS, SERVER_DATABASE, ServedDatabase},
    session::{Notifications, Session, SessionOptions},
    transact::{Operation, Outcome},
};

/// What to replicate, from where, and how.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The name of the database.
    pub database: String,
    /// Columns that must be there, of their types.
    pub required: Vec<RequiredColumn>,
    /// What of the table is wanted.
    pub request: MonitorRequest,
    /// How long a transaction may take before its outcome counts as unknown.
    pub transact_deadline: Duration,
    /// How long to wait between attempts to connect.
    pub backoff: Backoff,
    /// How to connect.
    pub session: SessionOptions,
}

/// What happened to the replica.
#[derive(Debug)]
pub enum Event<K> {
    /// The database was read: there is a replica, and nothing of an earlier one holds.
    Up {
        /// From where.
        remote: Remote,
    },
    /// Rows with these keys changed.
    Changed(HashSet<K>),
    /// There is no replica, until the next [`Event::Up`].
    Down {
        /// Which remote was lost, or not reached.
        remote: Remote,
        /// Whether there was a replica before.
        was_up: bool,
        /// Why.
        error: Error,
    },
}

/// A table of a database, replicated for as long as [`Client::next`] is called.
pub struct Client<R: Record> {
    options: Arc<ClientOptions>,
    attempts: Attempts,
    state: State<R>,
}

enum State<R: Record> {
    Connecting(Remote, Connecting<R>),
    Up(Box<Link<R>>),
}

type Connecting<R> = Pin<Box<dyn Future<Output = Result<Link<R>, Error>> + Send>>;

/// A session with all that was read in it.
struct Link<R: Record> {
    remote: Remote,
    session: Session,
    notifications: Notifications,
    database: MonitorId<'static>,
    replica: Replica<R>,
    server: Replica<ServedDatabase>,
    since: Instant,
}

impl<R: Record> Client<R> {
    /// A client that connects when [`Client::next`] is called.
    pub fn new(remotes: &Remotes, options: ClientOptions) -> Self {
        let options = Arc::new(options);
        let mut attempts = Attempts::new(remotes, options.backoff);
        let state = State::connecting(&mut attempts, &options);
        Self {
            options,
            attempts,
            state,
        }
    }

    /// The replica, unless the client is [down](Event::Down).
    pub fn replica(&self) -> Option<&Replica<R>> {
        match &self.state {
            State::Connecting(..) => None,
            State::Up(link) => Some(&link.replica),
        }
    }

    /// Waits for the next event. It can be dropped and called again, and nothing is lost.
    pub async fn next(&mut self) -> Event<R::Key> {
        loop {
            let (remote, was_up, error) = match &mut self.state {
                State::Connecting(remote, connecting) => match connecting.await {
                    Ok(link) => {
                        let remote = link.remote.clone();
                        self.state = State::Up(Box::new(link));
                        return Event::Up { remote };
                    }
                    Err(error) => (remote.clone(), false, error),
                },
                State::Up(link) => match link.next().await {
                    Ok(keys) if keys.is_empty() => continue,
                    Ok(keys) => return Event::Changed(keys),
                    Err(error) => (link.remote.clone(), true, error),
                },
            };
            self.restart();
            return Event::Down {
                remote,
                was_up,
                error,
            };
        }
    }

    /// An event that is there already. After the outcome of a transaction, this brings in all updates that came before it.
    pub fn ready(&mut self) -> Option<Event<R::Key>> {
        // Tokio makes a task wait that has done much; here that would look like the end of the updates.
        tokio::task::unconstrained(self.next()).now_or_never()
    }

    /// Carries a transaction out, while [`Client::next`] goes on; `None` if the client is [down](Event::Down).
    pub fn transact(
        &self,
        operations: Vec<Operation>,
    ) -> Option<impl Future<Output = Outcome> + Send + 'static> {
        let State::Up(link) = &self.state else {
            return None;
        };
        let (session, options) = (link.session.clone(), self.options.clone());
        Some(async move {
            session
                .transact(&options.database, &operations, options.transact_deadline)
                .await
        })
    }

    /// Ends the session, if there is one, and connects anew. To be called after [`Outcome::Unknown`].
    pub fn restart(&mut self) {
        if let State::Up(link) = &self.state
            // A session that ends soon after its start counts as a failed attempt.
            && link.since.elapsed() > self.options.backoff.max
        {
            self.attempts.succeeded();
        }
        self.state = State::connecting(&mut self.attempts, &self.options);
    }
}

impl<R: Record> State<R> {
    fn connecting(attempts: &mut Attempts, options: &Arc<ClientOptions>) -> Self {
        let (remote, delay) = attempts.next();
        let (target, options) = (remote.clone(), options.clone());
        let connecting = async move {
            sleep(delay).await;
            Link::open(target, &options).await
        };
        Self::Connecting(remote, Box::pin(connecting))
    }
}

impl<R: Record> Link<R> {
    async fn open(remote: Remote, options: &ClientOptions) -> Result<Self, Error> {
        let (session, notifications) = Session::open(&remote, &options.session).await?;
        session
            .schema(&options.database)
            .await?
            .require(&options.required)?;
        let columns = COLUMNS.map(str::to_owned).to_vec();
        let request = MonitorRequest {
            columns,
            conditions: Vec::new(),
        };
        let server = session
            .monitor(&MonitorId::new("server", SERVER_DATABASE), &request)
            .await?;
        server::check(&server, &options.database)?;
        let database = MonitorId::new("replica", &options.database);
        let replica = session.monitor(&database, &options.request).await?;
        let since = Instant::now();
        Ok(Self {
            remote,
            session,
            notifications,
            database,
            replica,
            server,
            since,
        })
    }

    /// Takes over the next notification.
    async fn next(&mut self) -> Result<HashSet<R::Key>, Error> {
        let notification = self.notifications.next().await?;
        match Update::parse(&notification)? {
            Update::Rows(id, rows) if id == self.database => Ok(self.replica.apply(rows)?),
            Update::Rows(id, rows) if id.1 == SERVER_DATABASE => {
                self.server.apply(rows)?;
                server::check(&self.server, &self.database.1)?;
                Ok(HashSet::new())
            }
            Update::Rows(id, _) => Err(Error::Unexpected(format!("update of {:?}", id.0))),
            Update::Canceled(id) => Err(Error::Canceled(id.1.into_owned())),
        }
    }
}
