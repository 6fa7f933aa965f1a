//! A DNS forwarder that CoreDNS asks first. It holds the answer with a new address of a wanted name until the status has the address,
//! so that the first connection of a pod passes.
//!
//! - `udp`, `tcp`: the clients. `upstream`: the servers that are asked.
//! - `gate`: which answers are held, and for how long. `state`: turns that off and on.
//!
//! It runs on a thread of its own, and listens only while this collector leads: CoreDNS sends queries on at once if a port is
//! closed.

mod forwarder;
mod gate;
mod state;
mod tcp;
mod udp;
mod upstream;

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::bail;
use runtime::{
    UsageError,
    leader::Leader,
    log_rate_limiter::LogRateLimiter,
    metrics::{Label, Values},
};
use tokio::{
    join,
    net::{TcpListener, UdpSocket},
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::{forwarder::Forwarder, upstream::Upstreams};
pub use self::{
    gate::{Gate, MOST_HELD},
    state::HoldState,
};
use crate::{
    cluster::networks::{Networks, Purpose},
    lookup::Servers,
};

runtime::metrics! {
    pub const METRICS;

    gauge LISTENING = "egress_collector_hold_listening" "1 while the forwarder of `--hold-listen` listens: only the leader's does";
    counter DROPPED = "egress_collector_hold_dropped_total" "Queries to the forwarder that got no answer, since too many others were in flight";
    counter "egress_collector_hold_upstream_failures_total" [Label { name: "upstream", values: Values::Any("the address of a DNS server") }]
        "Queries that an upstream refused or did not answer before another was asked";
    counter ANSWERS = "egress_collector_hold_answers_total" [Label::one_of("outcome", &["known", "written", "late", "full", "unled"])]
        "Forwarded answers with an address for a wanted name. `known`: the status had it, or a guard or a cap refuses it. `written`: held until the status had it. `late`: sent before that. `full`: too many others were held. `unled`: the collector did not lead";
    histogram "egress_collector_hold_seconds" "How long answers were held";
}

/// File descriptors for the queries in flight, of which some ask a second server.
pub const FILES: u64 = 2 * forwarder::IN_FLIGHT as u64;

/// The most octets of a message.
const MAX: usize = u16::MAX as usize;

/// How often a lead that ends by itself is noticed, and how often an address in use is tried again.
const INTERVAL: Duration = Duration::from_millis(100);

/// The interval of log lines about an address that cannot be bound.
const BIND_LOG: Duration = Duration::from_secs(30);

/// The forwarder, and what it depends on.
#[derive(Debug)]
pub struct Hold {
    /// The address for UDP and TCP.
    pub listen: SocketAddr,
    /// The servers that it asks.
    pub upstreams: Vec<SocketAddr>,
    pub leader: Leader,
    pub gate: Gate,
    /// The cluster's own networks.
    pub networks: watch::Receiver<Option<Arc<Networks>>>,
    /// The servers that look-ups ask: those that may ask this forwarder.
    pub lookup_servers: Option<watch::Receiver<Servers>>,
}

impl Hold {
    /// Forwards queries while this collector leads, until `shutdown`.
    ///
    /// # Errors
    /// [`UsageError`]: an upstream is one of the cluster's own DNS servers.
    pub async fn run(mut self, shutdown: CancellationToken) -> anyhow::Result<()> {
        let known = shutdown.run_until_cancelled(self.networks.wait_for(Option::is_some));
        let Some(known) = known.await else {
            return Ok(());
        };
        let networks = known.ok().and_then(|it| it.clone()).unwrap_or_default();
        self.refuse_loops(&networks)?;
        let state = self.gate.state().clone();
        let forwarder = Forwarder::new(Upstreams::new(self.upstreams), self.gate);
        let mut leader = self.leader;
        let outage = LogRateLimiter::every(BIND_LOG);
        while !shutdown.is_cancelled() {
            let leads = shutdown.run_until_cancelled(until(&mut leader, true));
            if leads.await.is_none() {
                break;
            }
            match bind(self.listen).await {
                Ok(sockets) => serve(sockets, &forwarder, &mut leader, &state, &shutdown).await,
                Err(error) => {
                    if let Some(suppressed) = outage.allow() {
                        warn!(addr = %self.listen, %error, suppressed_lines = suppressed, "cannot listen for queries to forward (--hold-listen): the collector tries again, and CoreDNS asks its next upstream");
                    }
                    sleep(INTERVAL).await;
                }
            }
        }
        Ok(())
    }

    /// A server that asks this forwarder must not be asked by it.
    fn refuse_loops(&self, networks: &Networks) -> anyhow::Result<()> {
        let queried = self.lookup_servers.as_ref().map(|it| it.borrow().clone());
        let queried = queried.unwrap_or_default();
        for upstream in &self.upstreams {
            let ip = upstream.ip().to_canonical();
            let is_own = is_reached_by(self.listen, *upstream);
            let is_queried = queried
                .iter()
                .any(|it| it.ip().to_canonical() == ip && it.port() == upstream.port());
            let purpose = networks.purpose(ip);
            let is_of_cluster = matches!(purpose, Some(Purpose::Services | Purpose::Pods));
            if is_own || is_queried || is_of_cluster {
                let problem = format!(
                    "--hold-listen: {upstream} would ask this collector again. It is the cluster's own DNS, which --resolver also asks, or an address of a Service or a pod. Name other servers by ?upstream=, or give the pod dnsPolicy Default"
                );
                bail!(UsageError(problem));
            }
        }
        Ok(())
    }
}

/// Whether a query to this address comes to the listener itself.
fn is_reached_by(listen: SocketAddr, address: SocketAddr) -> bool {
    let of_host =
        |ip: IpAddr| ip == listen.ip() || (listen.ip().is_unspecified() && ip.is_loopback());
    address.port() == listen.port() && of_host(address.ip())
}

/// Waits until this collector leads, or does not.
async fn until(leader: &mut Leader, leads: bool) {
    while leader.is_leading() != leads {
        // A lead that is not renewed ends by itself.
        let _changed = timeout(INTERVAL, leader.changed()).await;
    }
}

async fn bind(address: SocketAddr) -> io::Result<(UdpSocket, TcpListener)> {
    let udp = UdpSocket::bind(address).await?;
    // Port 0 has become one that is free.
    let tcp = TcpListener::bind(udp.local_addr()?).await?;
    Ok((udp, tcp))
}

/// Serves both sockets while this collector leads, and then finishes the queries in flight.
async fn serve(
    (udp, tcp): (UdpSocket, TcpListener),
    forwarder: &Arc<Forwarder>,
    leader: &mut Leader,
    state: &HoldState,
    shutdown: &CancellationToken,
) {
    match udp.local_addr() {
        Ok(addr) => info!(%addr, "hold listening"),
        Err(error) => warn!(%error, "the address of a bound socket is unknown"),
    }
    state.set_listens(true);
    let closing = shutdown.child_token();
    let ends = async {
        let _ended = closing.run_until_cancelled(until(leader, false)).await;
        closing.cancel();
    };
    join!(
        udp::serve(Arc::new(udp), forwarder, &closing),
        tcp::serve(tcp, forwarder, &closing),
        ends
    );
    state.set_listens(false);
    forwarder.finish().await;
    info!("hold closed");
}

#[cfg(test)]
mod tests;
