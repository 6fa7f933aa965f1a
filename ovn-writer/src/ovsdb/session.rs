//! One connection to one server, from its opening to its end, as requests with a deadline and notifications in their order.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde::{Serialize, Serializer, ser::SerializeSeq};
use serde_json::value::RawValue;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    error::{Error, ServerError},
    monitor::{MonitorId, NO_TRANSACTION, Requests, SinceReply},
    remote::Remote,
    replica::{Replica, TableUpdates},
    schema::Schema,
    server::{SERVER_DATABASE, ServedDatabase},
    tables::Tables,
    transact::{self, Operation, Outcome},
    transport::{self, Notification, Received, Receiver, Sender, Text, TransportOptions},
    waiting::Waiting,
};

/// Replies longer than this, in bytes, are read by a thread of their own: a megabyte takes about 10 ms.
const LONG_REPLY: usize = 1 << 20;

/// Notifications that wait to be taken, and their bytes; one that is longer waits alone. When there are more, nothing is read
/// until some are taken. The server sees that, and adds up what happens meanwhile instead of sending it bit by bit.
const QUEUED_NOTIFICATIONS: usize = 4096;
const QUEUED_BYTES: u32 = 16 << 20;

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

/// A connection to a server. Clones share it; it is closed when the last one is dropped.
#[derive(Clone)]
pub struct Session(Arc<Inner>);

struct Inner {
    sender: Sender,
    /// The id of the next request. They start at 1.
    next_id: AtomicU64,
    waiting: Arc<Waiting>,
    options: SessionOptions,
    _reader: AbortOnDropHandle<()>,
}

/// The notifications of a session, in the order in which they came.
pub struct Notifications {
    queue: mpsc::Receiver<Queued>,
    waiting: Arc<Waiting>,
}

/// A notification, and the room that it takes in the queue.
struct Queued(Notification, OwnedSemaphorePermit);

/// Hands everything that comes to those who wait for it, until the connection ends, and then closes it.
async fn read_all(
    mut receiver: Receiver,
    _writer: AbortOnDropHandle<()>,
    waiting: Arc<Waiting>,
    notifications: mpsc::Sender<Queued>,
) {
    let room = Arc::new(Semaphore::new(QUEUED_BYTES as usize));
    let end = loop {
        let taken = match receiver.receive().await {
            Ok(Received::Reply(reply)) => waiting.replied(reply),
            Ok(Received::Notification(notification)) => {
                let length = u32::try_from(notification.params.len());
                let length = length.map_or(QUEUED_BYTES, |length| length.min(QUEUED_BYTES));
                let queued = async {
                    if let Ok(permit) = room.clone().acquire_many_owned(length).await {
                        // Nobody may want any more of them.
                        let _unwanted = notifications.send(Queued(notification, permit)).await;
                    }
                };
                receiver.hold(queued).await;
                Ok(())
            }
            Err(error) => Err(error.into()),
        };
        if let Err(end) = taken {
            break end;
        }
    };
    waiting.end(end);
}

impl Session {
    /// Connects to a server and asks it to say so, instead of hanging up, when a database changes its state.
    ///
    /// # Errors
    /// [`Error::Connect`], and those of any request.
    pub async fn open(
        remote: &Remote,
        options: &SessionOptions,
    ) -> Result<(Self, Notifications), Error> {
        let connection = transport::connect(remote, &options.transport)
            .await
            .map_err(Error::Connect)?;
        let waiting = Arc::new(Waiting::new());
        let (notifications, queue) = mpsc::channel(QUEUED_NOTIFICATIONS);
        let reader = read_all(
            connection.receiver,
            connection.writer,
            waiting.clone(),
            notifications,
        );
        let reader = tokio::spawn(reader);
        let session = Self(Arc::new(Inner {
            sender: connection.sender,
            next_id: AtomicU64::new(1),
            waiting: waiting.clone(),
            options: options.clone(),
            _reader: AbortOnDropHandle::new(reader),
        }));
        let deadline = options.request_deadline;
        match session.call("set_db_change_aware", &[true], deadline).await {
            // Servers before Open vSwitch 2.9.
            Err(error) if is_unknown_method(&error) => {}
            answer => drop(answer?),
        }
        Ok((session, Notifications { queue, waiting }))
    }

    /// The schema of a database.
    ///
    /// # Errors
    /// [`Error::Refused`] if the server does not have it, and those of any request.
    pub async fn schema(&self, database: &str) -> Result<Schema, Error> {
        let method = "get_schema";
        let reply = self
            .call(method, &[database], self.0.options.request_deadline)
            .await?;
        reply.read().map_err(|source| Error::Malformed {
            what: "the schema",
            source,
        })
    }

    /// Carries a transaction out, or finds out that it was not, within the deadline.
    ///
    /// Updates of one's own changes come before the outcome: take [`Notifications`] before judging what is left to do.
    pub async fn transact(
        &self,
        database: &str,
        operations: &[Operation],
        deadline: Duration,
    ) -> Outcome {
        match self
            .call(
                "transact",
                &Transact {
                    database,
                    operations,
                },
                deadline,
            )
            .await
        {
            Ok(reply) => transact::outcome(operations, &reply),
            // A server that gives the database up, or converts it, cancels what may be on its way through the cluster.
            Err(Error::Refused { reason, .. }) if reason.error != "canceled" => {
                Outcome::Refused(transact::Refusal {
                    operation: None,
                    reason,
                })
            }
            Err(error) => Outcome::Unknown(error),
        }
    }

    /// Starts to monitor what the server says of its databases; `None` if it says nothing, as before Open vSwitch 2.9.
    pub(super) async fn served_databases(&self) -> Result<Option<Replica<ServedDatabase>>, Error> {
        let id = MonitorId::new("server", SERVER_DATABASE);
        let requests = Requests::of::<ServedDatabase>();
        match self
            .monitor::<ServedDatabase>(&id, requests, &mut None)
            .await
        {
            Ok(Monitored { replica, .. }) => Ok(Some(replica)),
            Err(Error::Refused { reason, .. }) if reason.error == "unknown database" => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Starts to monitor tables, and reads their rows, or what happened to them since `kept`.
    ///
    /// # Errors
    /// Those of any request; `kept` is left as it was if the server was not asked or did not answer.
    pub(super) async fn monitor<T: Tables>(
        &self,
        id: &MonitorId<'static>,
        requests: Requests,
        kept: &mut Option<Kept<T>>,
    ) -> Result<Monitored<T>, Error> {
        let deadline = self.0.options.monitor_deadline;
        kept.take_if(|kept| kept.requests != requests);
        let since = kept.as_ref().map_or(NO_TRANSACTION, |kept| &kept.last);
        let (method, params) = ("monitor_cond_since", (&id.1, id, &requests, since));
        match self.call(method, &params, deadline).await {
            Ok(reply) => {
                let kept = kept.take().map(|kept| kept.replica);
                return read_rows(reply, move |reply| since_reply(reply, kept, requests)).await;
            }
            Err(error) if !is_unknown_method(&error) => return Err(error),
            Err(_) => *kept = None,
        }
        // Servers before Open vSwitch 2.12.
        let (method, params) = ("monitor_cond", (&id.1, id, &requests));
        match self.call(method, &params, deadline).await {
            Ok(reply) => {
                let all =
                    |reply: &Text| Monitored::all(reply.read(), TableUpdates::read_differences);
                return read_rows(reply, all).await;
            }
            Err(error) if !is_unknown_method(&error) => return Err(error),
            Err(_) => {}
        }
        // Servers before Open vSwitch 2.6.
        let (method, params) = ("monitor", (&id.1, id, requests.without_conditions()));
        let reply = self.call(method, &params, deadline).await?;
        let all = |reply: &Text| Monitored::all(reply.read(), TableUpdates::read_rows);
        read_rows(reply, all).await
    }

    async fn call(
        &self,
        method: &'static str,
        params: &impl Serialize,
        deadline: Duration,
    ) -> Result<Text, Error> {
        let Inner {
            sender,
            next_id,
            waiting,
            ..
        } = &*self.0;
        let id = next_id.fetch_add(1, Ordering::Relaxed);
        let request =
            transport::request(id, method, params).map_err(|source| Error::Malformed {
                what: "a request",
                source,
            })?;
        let reply = waiting.add(id)?;
        let answer = async {
            // If nothing is written any more, the reader finds the end of the connection, too, and says why.
            let _ended = sender.send(request).await;
            reply.await
        };
        match timeout(deadline, answer).await {
            Ok(Ok(Ok(result))) => Ok(result),
            Ok(Ok(Err(error))) => Err(Error::Refused {
                method,
                reason: ServerError::parse(&error.lossy()),
            }),
            Ok(Err(_)) => Err(waiting.why()),
            Err(_) => Err(Error::Deadline { method, deadline }),
        }
    }
}

impl Notifications {
    /// The next one, in the order in which the server sent them. It can be dropped and called again.
    ///
    /// # Errors
    /// The end of the session.
    pub(super) async fn next(&mut self) -> Result<Notification, Error> {
        match self.queue.recv().await {
            Some(Queued(notification, _room)) => Ok(notification),
            None => Err(self.waiting.why()),
        }
    }
}

/// The parameters of `transact`: the database, then the operations, in one array.
struct Transact<'a> {
    database: &'a str,
    operations: &'a [Operation],
}

impl Serialize for Transact<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut array = serializer.serialize_seq(Some(self.operations.len().saturating_add(1)))?;
        array.serialize_element(self.database)?;
        for operation in self.operations {
            array.serialize_element(operation)?;
        }
        array.end()
    }
}

fn is_unknown_method(error: &Error) -> bool {
    matches!(error, Error::Refused { reason, .. } if reason.error == "unknown method")
}

/// What was replicated before, up to a transaction.
pub(super) struct Kept<T: Tables> {
    pub(super) replica: T::Replica,
    /// The transaction.
    pub(super) last: String,
    /// What was asked for. After a change of it, the server would send nothing of the rows that were not asked for before.
    pub(super) requests: Requests,
}

/// What a monitor begins with.
pub(super) struct Monitored<T: Tables> {
    pub(super) replica: T::Replica,
    /// Whether only what happened since the last session was read.
    pub(super) resumed: bool,
    /// The transaction up to which this is, and what was asked for, if the server can resume from there.
    pub(super) resumable: Option<(String, Requests)>,
}

impl<T: Tables> Monitored<T> {
    /// All rows of the reply, which are read so.
    fn all<'a>(
        reply: Result<&'a RawValue, serde_json::Error>,
        read: impl FnOnce(&'a RawValue) -> Result<TableUpdates<'a>, serde_json::Error>,
    ) -> Result<Self, Error> {
        let updates = reply.and_then(read).map_err(malformed)?;
        let mut replica = T::Replica::default();
        T::apply(&mut replica, updates, &mut T::Changes::default())?;
        Ok(Self {
            replica,
            resumed: false,
            resumable: None,
        })
    }
}

fn since_reply<T: Tables>(
    reply: &Text,
    kept: Option<T::Replica>,
    requests: Requests,
) -> Result<Monitored<T>, Error> {
    let SinceReply(found, last, updates) = reply.read().map_err(malformed)?;
    let mut replica = kept.filter(|_| found).unwrap_or_default();
    let updates = TableUpdates::read_differences(updates).map_err(malformed)?;
    T::apply(&mut replica, updates, &mut T::Changes::default())?;
    Ok(Monitored {
        replica,
        resumed: found,
        resumable: Some((last, requests)),
    })
}

fn malformed(source: serde_json::Error) -> Error {
    Error::Malformed {
        what: "the reply to a monitor",
        source,
    }
}

/// Reads the first rows of a monitor, by a thread of its own if they are many.
async fn read_rows<T: Tables>(
    reply: Text,
    read: impl FnOnce(&Text) -> Result<Monitored<T>, Error> + Send + 'static,
) -> Result<Monitored<T>, Error> {
    if reply.len() < LONG_REPLY {
        return read(&reply);
    }
    tokio::task::spawn_blocking(move || read(&reply)).await?
}
