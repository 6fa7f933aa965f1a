//! One query: asked on, its answer held if need be, and sent back.

use std::{sync::Arc, time::Duration};

use metrics::counter;
use proto::dns::Query;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use super::{
    DROPPED,
    gate::Gate,
    upstream::{Transport, Upstreams},
};

/// The most queries in flight: each has a socket for each server that it asks. Further ones are dropped, as by a full socket buffer.
pub(super) const IN_FLIGHT: u32 = 4096;

/// The longest wait for the queries in flight at the end.
const DRAIN: Duration = Duration::from_secs(1);

/// Forwards queries of both listeners.
#[derive(Debug)]
pub(super) struct Forwarder {
    upstreams: Upstreams,
    gate: Gate,
    free: Arc<Semaphore>,
}

impl Forwarder {
    pub(super) fn new(upstreams: Upstreams, gate: Gate) -> Arc<Self> {
        let free = Arc::new(Semaphore::new(IN_FLIGHT as usize));
        Arc::new(Self {
            upstreams,
            gate,
            free,
        })
    }

    /// Begins a query; `None` if too many others are in flight.
    pub(super) fn begin(&self) -> Option<OwnedSemaphorePermit> {
        let permit = Arc::clone(&self.free).try_acquire_owned().ok();
        if permit.is_none() {
            counter!(DROPPED).increment(1);
        }
        permit
    }

    /// The upstream's reply, with the identifier of the query. `None` if no upstream replies.
    pub(super) async fn answer(&self, query: &Query, transport: Transport) -> Option<Vec<u8>> {
        let reply = self.upstreams.ask(query, transport).await;
        self.gate.state().count_query(reply.is_some());
        let mut reply = reply?;
        self.gate.pass(&reply).await;
        query.restore_id(&mut reply);
        Some(reply)
    }

    /// Waits for the queries in flight.
    pub(super) async fn finish(&self) {
        let _late = timeout(DRAIN, self.free.acquire_many(IN_FLIGHT)).await;
    }
}
