//! One connection to one server, from its opening to its end, as requests with a deadline and notifications in their order.

use std::{sync::Arc, time::Duration};

use jsonrpsee_core::{
    client::{
        Client, ClientBuilder, ClientT, Error as ClientError, Subscription, SubscriptionClientT,
        SubscriptionCloseReason, async_client::RpcService,
    },
    middleware::RpcServiceBuilder,
    traits::ToRpcParams,
};
use serde::{Deserialize, Serialize, Serializer, ser::SerializeSeq};
use serde_json::value::{RawValue, to_raw_value};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::{
    error::{Error, ServerError},
    monitor::{self, MonitorId, MonitorRequest, SinceReply},
    remote::Remote,
    replica::{Record, Replica, TableUpdates},
    schema::Schema,
    transact::{self, Operation, Outcome},
    transport::{self, FUNNEL, TransportOptions},
};

/// Replies longer than this, in bytes, are read by a thread of their own: a megabyte takes about 10 ms.
const LONG_REPLY: usize = 1 << 20;

/// Notifications that wait to be taken; more end the session.
const QUEUED_NOTIFICATIONS: usize = 4096;

/// jsonrpsee's own limit for a request; ours are always shorter.
const LONGEST_REQUEST: Duration = Duration::from_secs(3600);

/// How to connect, and how long to wait.
#[derive(Clone, Copy, Debug)]
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
    client: Client<RpcService>,
    options: SessionOptions,
    _writer: AbortOnDropHandle<()>,
}

/// What the server says unasked.
#[derive(Debug, Deserialize)]
pub(super) struct Notification {
    pub(super) method: String,
    pub(super) params: Box<RawValue>,
}

/// The notifications of a session, in the order in which they came.
pub struct Notifications {
    subscription: Subscription<Notification>,
    session: Session,
}

/// Parameters that are JSON already.
struct Params(Box<RawValue>);

impl ToRpcParams for Params {
    fn to_rpc_params(self) -> Result<Option<Box<RawValue>>, serde_json::Error> {
        Ok(Some(self.0))
    }
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
        let client = ClientBuilder::new()
            .request_timeout(LONGEST_REQUEST)
            .max_buffer_capacity_per_subscription(QUEUED_NOTIFICATIONS)
            // The default middleware writes every message into a log record, wanted or not.
            .set_rpc_middleware(RpcServiceBuilder::new())
            .build_with_tokio(connection.sender, connection.receiver);
        let inner = Inner {
            client,
            options: *options,
            _writer: connection.writer,
        };
        let session = Self(Arc::new(inner));
        let (method, deadline) = (FUNNEL, options.request_deadline);
        let subscribing = session.0.client.subscribe_to_method(method);
        let subscription = timeout(deadline, subscribing)
            .await
            .map_err(|_| Error::Deadline { method, deadline })??;
        session
            .call("set_db_change_aware", &[true], deadline)
            .await?;
        Ok((
            session.clone(),
            Notifications {
                subscription,
                session,
            },
        ))
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
        serde_json::from_str(reply.get()).map_err(|source| Error::Malformed {
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
            Ok(reply) => transact::outcome(operations.len(), &reply),
            Err(Error::Refused { reason, .. }) => Outcome::Refused(transact::Refusal {
                operation: None,
                reason,
            }),
            Err(error) => Outcome::Unknown(error),
        }
    }

    /// Starts to monitor a table and reads its rows.
    pub(super) async fn monitor<R: Record>(
        &self,
        id: &MonitorId<'static>,
        request: &MonitorRequest,
    ) -> Result<Replica<R>, Error> {
        let deadline = self.0.options.monitor_deadline;
        let params = monitor::since_the_beginning(id, R::TABLE, request);
        match self.call("monitor_cond_since", &params, deadline).await {
            Ok(reply) => {
                read_rows(reply, |json| replica_of(rows_of::<SinceReply<'_>>(json)?.2)).await
            }
            // Servers before Open vSwitch 2.12.
            Err(Error::Refused { reason, .. }) if reason.error == "unknown method" => {
                let (database, id, requests, _) = params;
                let reply = self
                    .call("monitor_cond", &(database, id, requests), deadline)
                    .await?;
                read_rows(reply, |json| replica_of(rows_of(json)?)).await
            }
            Err(error) => Err(error),
        }
    }

    /// Why the session ended, when it has.
    async fn end(&self) -> Error {
        let (method, deadline) = ("the end of the session", self.0.options.request_deadline);
        match timeout(deadline, self.0.client.on_disconnect()).await {
            Ok(error) => error.into(),
            Err(_) => Error::Deadline { method, deadline },
        }
    }

    async fn call(
        &self,
        method: &'static str,
        params: &impl Serialize,
        deadline: Duration,
    ) -> Result<Box<RawValue>, Error> {
        let malformed = |source| Error::Malformed {
            what: "a request",
            source,
        };
        let params = Params(to_raw_value(params).map_err(malformed)?);
        match timeout(deadline, self.0.client.request(method, params)).await {
            Err(_) | Ok(Err(ClientError::RequestTimeout)) => {
                Err(Error::Deadline { method, deadline })
            }
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(ClientError::Call(refusal))) => {
                let reason = ServerError::parse(refusal.data().map_or("", RawValue::get));
                Err(Error::Refused { method, reason })
            }
            Ok(Err(error)) => Err(error.into()),
        }
    }
}

impl Notifications {
    /// The next one, in the order in which the server sent them. It can be dropped and called again.
    ///
    /// # Errors
    /// The end of the session.
    pub(super) async fn next(&mut self) -> Result<Notification, Error> {
        match self.subscription.next().await {
            Some(Ok(notification)) => Ok(notification),
            Some(Err(source)) => Err(Error::Malformed {
                what: "a notification",
                source,
            }),
            None => match self.subscription.close_reason() {
                // jsonrpsee drops the subscription and goes on without it.
                Some(SubscriptionCloseReason::Lagged) => Err(Error::Lagged),
                _ => Err(self.session.end().await),
            },
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

fn rows_of<'a, T: Deserialize<'a>>(json: &'a RawValue) -> Result<T, Error> {
    let malformed = |source| Error::Malformed {
        what: "the reply to a monitor",
        source,
    };
    serde_json::from_str(json.get()).map_err(malformed)
}

fn replica_of<R: Record>(rows: TableUpdates<'_>) -> Result<Replica<R>, Error> {
    let mut replica = Replica::default();
    replica.apply(rows)?;
    Ok(replica)
}

/// Reads the first rows of a monitor, by a thread of its own if they are many.
async fn read_rows<R: Record>(
    reply: Box<RawValue>,
    read: fn(&RawValue) -> Result<Replica<R>, Error>,
) -> Result<Replica<R>, Error> {
    if reply.get().len() < LONG_REPLY {
        return read(&reply);
    }
    tokio::task::spawn_blocking(move || read(&reply)).await?
}
