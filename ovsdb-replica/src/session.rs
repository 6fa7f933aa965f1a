//! One connection to one server, from its opening to its end: requests with a deadline, and what comes, in its order.

use std::{collections::VecDeque, iter, time::Duration};

use serde::Serialize;
use tokio::{task::spawn_blocking, time::Instant};

use super::{
    error::{Error, ServerError},
    monitor::{MonitorId, NO_TRANSACTION, Requests, SinceReply},
    remote::Remote,
    replica::{Replica, TableUpdates},
    schema::Schema,
    server::{self, SERVER_DATABASE, ServedDatabase},
    tables::Tables,
    transact::{self, Operation, Outcome},
    transport::{
        self, Connection, MessageError, Notification, Received, Reply, Text, TransportError,
        TransportOptions,
    },
};

/// Replies longer than this, in bytes, are read by a thread of their own: a megabyte takes about 10 ms.
const LONG_REPLY: usize = 1 << 20;

/// Bytes of the notifications that may come before the reply to a request is there, and what each takes at least.
const QUEUED_BYTES: usize = 16 << 20;
const LEAST_BYTES: usize = 256;

/// How to connect, and how long to wait.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// The connection.
    pub transport: TransportOptions,
    /// For a reply to anything but a monitor or a transaction.
    pub request_deadline: Duration,
    /// For the first reply of a monitor, which holds all rows.
    pub monitor_deadline: Duration,
}

impl Default for SessionOptions {
    /// 10 s, and 5 min for a monitor.
    fn default() -> Self {
        Self {
            transport: TransportOptions::default(),
            request_deadline: Duration::from_secs(10),
            monitor_deadline: Duration::from_secs(300),
        }
    }
}

/// A connection to a server, and what it is asked.
pub(super) struct Session {
    connection: Connection,
    /// The id of the next request. They start at 1.
    next_id: u64,
    /// Those that are under way, the oldest first.
    transactions: VecDeque<Transaction>,
    /// What is known and was not told yet.
    pending_events: VecDeque<SessionEvent>,
    options: SessionOptions,
}

/// A transaction that was begun: its place among those of its session.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct TransactionId(u64);

/// A transaction that is under way.
struct Transaction {
    id: TransactionId,
    operations: Vec<Operation>,
    deadline: Duration,
    until: Instant,
}

/// What happens in a session.
pub(super) enum SessionEvent {
    /// The server says something unasked.
    Notification(Notification),
    /// A transaction ended. The updates that it brought were told before.
    Ended(TransactionId, Outcome),
    /// The server does not answer, though the connection is there, or does so again.
    Responsive(bool),
}

impl Session {
    /// Connects to a server and asks it to say so, instead of hanging up, when a database changes its state.
    ///
    /// # Errors
    /// [`Error::Connect`], and those of any request.
    pub(super) async fn open(remote: &Remote, options: &SessionOptions) -> Result<Self, Error> {
        let connection = transport::connect(remote, &options.transport)
            .await
            .map_err(Error::Connect)?;
        let mut session = Self {
            connection,
            next_id: 1,
            transactions: VecDeque::new(),
            pending_events: VecDeque::new(),
            options: options.clone(),
        };
        let deadline = options.request_deadline;
        match session.call("set_db_change_aware", &[true], deadline).await {
            Err(Error::Refused { reason, .. }) if reason.error == "unknown method" => {
                return Err(Error::TooOld { found: None });
            }
            answer => drop(answer?),
        }
        Ok(session)
    }

    /// The schema of a database.
    ///
    /// # Errors
    /// [`Error::Refused`] if the server does not have it, and those of any request.
    pub(super) async fn schema(&mut self, database: &str) -> Result<Schema, Error> {
        let deadline = self.options.request_deadline;
        let reply = self.call("get_schema", &[database], deadline).await?;
        reply.read().map_err(|source| Error::Malformed {
            what: "the schema",
            source,
        })
    }

    /// Sends a transaction, and [tells](Session::next) its outcome when it is known, or within the deadline that it is not.
    pub(super) fn transact(
        &mut self,
        database: &str,
        operations: Vec<Operation>,
        deadline: Duration,
    ) -> TransactionId {
        let id = TransactionId(self.next_id);
        let database = iter::once(Param::Database(database));
        let params: Vec<_> = database
            .chain(operations.iter().map(Param::Operation))
            .collect();
        match self.send("transact", &params) {
            Ok(_) => self.transactions.push_back(Transaction {
                id,
                operations,
                deadline,
                until: Instant::now() + deadline,
            }),
            Err(error) => self
                .pending_events
                .push_back(SessionEvent::Ended(id, Outcome::Unknown(error))),
        }
        id
    }

    /// Whether the server answered when it was asked last.
    pub(super) fn is_responsive(&self) -> bool {
        self.connection.is_responsive()
    }

    /// The transactions that have no outcome yet.
    pub(super) fn under_way(&self) -> Vec<TransactionId> {
        self.transactions.iter().map(|sent| sent.id).collect()
    }

    /// Waits for what happens next. It can be dropped and called again, and nothing is lost.
    ///
    /// # Errors
    /// The end of the session.
    pub(super) async fn next(&mut self) -> Result<SessionEvent, Error> {
        loop {
            if let Some(event) = self.pending_events.pop_front() {
                return Ok(event);
            }
            let until = self.transactions.front().map(|sent| sent.until);
            if until.is_some_and(|until| until <= Instant::now())
                && let Some(late) = self.transactions.pop_front()
            {
                let (method, deadline) = ("transact", late.deadline);
                let outcome = Outcome::Unknown(Error::Deadline { method, deadline });
                return Ok(SessionEvent::Ended(late.id, outcome));
            }
            match self.connection.receive(until).await? {
                Some(Received::Notification(notification)) => {
                    return Ok(SessionEvent::Notification(notification));
                }
                Some(Received::Reply(reply)) => return self.replied(reply),
                Some(Received::Responsive(responsive)) => {
                    return Ok(SessionEvent::Responsive(responsive));
                }
                None => {}
            }
        }
    }

    fn replied(&mut self, reply: Reply) -> Result<SessionEvent, Error> {
        let mut sent = self.transactions.iter();
        let at = sent.position(|sent| sent.id.0 == reply.id);
        let sent = at.and_then(|at| self.transactions.remove(at));
        let Transaction { id, operations, .. } = sent.ok_or_else(|| no_request(&reply))?;
        let outcome = match result("transact", reply) {
            Ok(results) => transact::outcome(&operations, &results),
            // A server that gives the database up, or converts it, cancels what may be on its way through the cluster.
            Err(Error::Refused { reason, .. }) if reason.error != "canceled" => {
                Outcome::Refused(transact::Refusal {
                    operation: None,
                    reason,
                })
            }
            Err(error) => Outcome::Unknown(error),
        };
        Ok(SessionEvent::Ended(id, outcome))
    }

    /// Starts to monitor what the server says of its databases.
    ///
    /// # Errors
    /// [`Error::TooOld`], and those of any request.
    pub(super) async fn served_databases(&mut self) -> Result<Replica<ServedDatabase>, Error> {
        let schema = match self.schema(SERVER_DATABASE).await {
            Err(Error::Refused { reason, .. }) if reason.error == "unknown database" => {
                return Err(Error::TooOld { found: None });
            }
            schema => schema?,
        };
        if !server::is_new_enough(&schema.version) {
            let found = Some(schema.version);
            return Err(Error::TooOld { found });
        }
        let id = MonitorId::new("server", SERVER_DATABASE);
        let requests = ServedDatabase::requests(&schema)?;
        let mut kept = None::<ResumePoint<ServedDatabase>>;
        let (monitored, _) = self.monitor(&id, requests, &mut kept).await?;
        Ok(monitored.replica)
    }

    /// Starts to monitor tables, and reads their rows, or what happened to them since `kept`; returns which of the two it was,
    /// too.
    ///
    /// # Errors
    /// Those of any request; `kept` is left as it was if the server was not asked or did not answer.
    pub(super) async fn monitor<T: Tables>(
        &mut self,
        id: &MonitorId,
        requests: Requests,
        kept: &mut Option<ResumePoint<T>>,
    ) -> Result<(ResumePoint<T>, bool), Error> {
        let deadline = self.options.monitor_deadline;
        kept.take_if(|kept| kept.requests != requests);
        let since = kept.as_ref().map_or(NO_TRANSACTION, |kept| &kept.last);
        let (method, params) = ("monitor_cond_since", (&id.1, id, &requests, since));
        let reply = self.call(method, &params, deadline).await?;
        let replica = kept.take().map(|kept| kept.replica);
        if reply.len() < LONG_REPLY {
            return since_reply(&reply, replica, requests);
        }
        spawn_blocking(move || since_reply(&reply, replica, requests)).await?
    }

    /// Sends a request and waits for its reply. What else comes is told later.
    async fn call(
        &mut self,
        method: &'static str,
        params: &impl Serialize,
        deadline: Duration,
    ) -> Result<Text, Error> {
        let id = self.send(method, params)?;
        let until = Instant::now() + deadline;
        let mut room = QUEUED_BYTES;
        loop {
            match self.connection.receive(Some(until)).await? {
                Some(Received::Reply(reply)) if reply.id == id => return result(method, reply),
                Some(Received::Reply(reply)) => return Err(no_request(&reply)),
                Some(Received::Notification(notification)) => {
                    let length = notification.params.len().max(LEAST_BYTES);
                    room = room.checked_sub(length).ok_or_else(|| {
                        Error::Unexpected(format!("too many before the reply to {method}"))
                    })?;
                    self.pending_events
                        .push_back(SessionEvent::Notification(notification));
                }
                // The deadline says as much.
                Some(Received::Responsive(_)) => {}
                None => return Err(Error::Deadline { method, deadline }),
            }
        }
    }

    /// Sends a request, and returns its id.
    fn send(&mut self, method: &'static str, params: &impl Serialize) -> Result<u64, Error> {
        let id = self.next_id;
        self.next_id += 1;
        self.connection
            .send(id, method, params)
            .map_err(|source| Error::Malformed {
                what: "a request",
                source,
            })?;
        Ok(id)
    }
}

fn result(method: &'static str, reply: Reply) -> Result<Text, Error> {
    reply.result.map_err(|error| Error::Refused {
        method,
        reason: ServerError::parse(&error.lossy()),
    })
}

fn no_request(reply: &Reply) -> Error {
    TransportError::from(MessageError::NoRequest(reply.id.to_string())).into()
}

/// The parameters of `transact`: the database, then the operations.
#[derive(Serialize)]
#[serde(untagged)]
enum Param<'a> {
    Database(&'a str),
    Operation(&'a Operation),
}

/// What is replicated, up to a transaction.
pub(super) struct ResumePoint<T: Tables> {
    pub(super) replica: T::Replica,
    /// The transaction.
    pub(super) last: String,
    /// What was asked for. After a change of it, the server would send nothing of the rows that were not asked for before.
    pub(super) requests: Requests,
}

/// What a monitor begins with, and whether only what happened since the last session was read.
fn since_reply<T: Tables>(
    reply: &Text,
    kept: Option<T::Replica>,
    requests: Requests,
) -> Result<(ResumePoint<T>, bool), Error> {
    let SinceReply(found, last, updates) = reply.read().map_err(malformed)?;
    let mut replica = kept.filter(|_| found).unwrap_or_default();
    let updates = TableUpdates::read_differences(updates).map_err(malformed)?;
    T::apply(&mut replica, updates, &mut T::Changes::default())?;
    let monitored = ResumePoint {
        replica,
        last,
        requests,
    };
    Ok((monitored, found))
}

fn malformed(source: serde_json::Error) -> Error {
    Error::Malformed {
        what: "the reply to a monitor",
        source,
    }
}
