//! One connection to one server, from its opening to its end: requests with a deadline, and incoming messages in their
//! order.

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

/// Longer replies, in bytes, are parsed on a separate thread: a megabyte takes about 10 ms.
const LONG_REPLY: usize = 1 << 20;

/// The options of a connection, and its time-outs.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// The connection.
    pub transport: TransportOptions,
    /// For a reply to any request but a monitor or a transaction.
    pub request_deadline: Duration,
    /// For the first reply of a monitor, which has all rows.
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

/// A connection to a server, and its pending requests.
pub(super) struct Session {
    connection: Connection,
    /// The id of the next request. They start at 1.
    next_id: u64,
    /// The pending transactions, the oldest first.
    transactions: VecDeque<Transaction>,
    /// Events that were not returned yet.
    pending_events: VecDeque<SessionEvent>,
    options: SessionOptions,
}

/// A started transaction: its number in its session.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct TransactionId(u64);

/// A pending transaction.
struct Transaction {
    id: TransactionId,
    operations: Vec<Operation>,
    deadline: Duration,
    until: Instant,
}

/// An event of a session.
pub(super) enum SessionEvent {
    /// An unsolicited message of the server.
    Notification(Notification),
    /// A transaction ended. Its updates were returned before.
    Ended(TransactionId, Outcome),
}

impl Session {
    /// Connects to a server. It also asks the server to report state changes of databases instead of disconnecting.
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

    /// Sends a transaction. [`Session::next`] returns its outcome, or after the deadline that it is unknown.
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

    /// The transactions without an outcome yet.
    pub(super) fn under_way(&self) -> Vec<TransactionId> {
        self.transactions.iter().map(|sent| sent.id).collect()
    }

    /// Waits for the next event. Cancel-safe.
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
            // A server that drops or converts the database cancels transactions that may already be on their way
            // through the cluster.
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

    /// Starts to monitor the state of the server's databases.
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

    /// Starts to monitor tables, and reads their rows, or only the changes since `kept`. Also returns which of the two
    /// it was.
    ///
    /// # Errors
    /// Those of any request; `kept` is unchanged if the request was not sent or not answered.
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

    /// Sends a request and waits for its reply.
    async fn call(
        &mut self,
        method: &'static str,
        params: &impl Serialize,
        deadline: Duration,
    ) -> Result<Text, Error> {
        let id = self.send(method, params)?;
        match self.connection.reply(Instant::now() + deadline).await? {
            Some(reply) if reply.id == id => result(method, reply),
            Some(reply) => Err(no_request(&reply)),
            None => Err(Error::Deadline { method, deadline }),
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

/// A replica, and its last transaction.
pub(super) struct ResumePoint<T: Tables> {
    pub(super) replica: T::Replica,
    /// The transaction.
    pub(super) last: String,
    /// The monitor request. After a change of it, the server would not send the rows that were not requested before.
    pub(super) requests: Requests,
}

/// The start of a monitor, and whether it has only the changes since the last session.
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
