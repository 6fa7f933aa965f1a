//! Shutdown, in the order that costs CoreDNS the least.
//!
//! When a reader disconnects, CoreDNS loses the events that it has not flushed. It dials again once
//! at once, and then only every ten seconds. So the Service must have stopped routing to this pod
//! before the streams are closed. If CoreDNS streams to two collectors, their delays differ by 15 s,
//! so that it has reconnected to one before the other closes its streams.

use std::time::Duration;

use runtime::admin::Gate;
use tokio::time::sleep;

/// Returns when the streams may be closed. `gate` is ready until shutdown begins.
pub(super) async fn leave_service(delay: Duration, gate: Gate) {
    gate.not_ready("the program is shutting down");
    sleep(delay).await;
}
