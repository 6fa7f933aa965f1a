//! Liveness, readiness and metrics over HTTP: `/livez`, `/readyz`, `/metrics`.

use std::{fmt::Write, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context;
use axum::{
    Router,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::IntoResponse,
    routing::get,
};
use parking_lot::Mutex;
use proto::facts::Condition;
use tokio::time;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    http,
    listen::{Access, ListenAddress, Listener},
    telemetry::Exporter,
};

/// The Prometheus text format, version 0.0.4.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// How often histograms are folded, so that they do not grow while nothing scrapes them.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// The conditions of the program's readiness: it is ready when every gate is.
#[derive(Clone, Debug, Default)]
pub struct Health(Arc<Mutex<Vec<Condition>>>);

impl Health {
    /// Ready, since it has no gates.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a condition, not ready for `reason` until [`Gate::ready`]. It cannot be removed.
    pub fn gate(&self, name: &'static str, reason: impl Into<String>) -> Gate {
        let mut conditions = self.0.lock();
        conditions.push(Condition {
            name: name.to_owned(),
            holds: false,
            reason: Some(reason.into()),
        });
        Gate {
            health: self.clone(),
            index: conditions.len() - 1,
        }
    }

    /// Whether every gate is ready, and a line about each.
    fn report(&self) -> (bool, String) {
        let conditions = self.0.lock();
        let ready = conditions.iter().all(|condition| condition.holds);
        let mut text = String::from(if ready { "ready\n" } else { "not ready\n" });
        for Condition {
            name,
            holds,
            reason,
        } in conditions.iter()
        {
            // Writing to a String does not fail.
            let _ok = match reason {
                None => writeln!(text, "{name}: ok"),
                Some(reason) if *holds => writeln!(text, "{name}: ok, but {reason}"),
                Some(reason) => writeln!(text, "{name}: {reason}"),
            };
        }
        (ready, text)
    }

    /// All conditions, in the order in which their gates were made.
    pub fn conditions(&self) -> Vec<Condition> {
        self.0.lock().clone()
    }
}

/// One condition of readiness. Clones are the same condition.
#[derive(Clone)]
pub struct Gate {
    health: Health,
    index: usize,
}

impl Gate {
    /// Marks the condition as holding.
    pub fn ready(&self) {
        self.set(true, None);
    }

    /// Marks the condition as holding, with a warning that `/readyz` and the log show.
    pub fn impaired(&self, reason: impl Into<String>) {
        self.set(true, Some(reason.into()));
    }

    /// Marks the condition as not holding, for a reason that `/readyz` and the log show.
    pub fn not_ready(&self, reason: impl Into<String>) {
        self.set(false, Some(reason.into()));
    }

    fn set(&self, holds: bool, reason: Option<String>) {
        let mut conditions = self.health.0.lock();
        let Some(condition) = conditions.get_mut(self.index) else {
            return;
        };
        if (condition.holds, &condition.reason) == (holds, &reason) {
            return;
        }
        match &reason {
            None => info!(gate = %condition.name, "ready"),
            Some(reason) if holds => warn!(gate = %condition.name, reason, "ready, but impaired"),
            Some(reason) => warn!(gate = %condition.name, reason, "not ready"),
        }
        condition.holds = holds;
        condition.reason = reason;
    }
}

/// The bound admin server.
pub struct Admin {
    listener: Listener,
    local_addr: SocketAddr,
}

impl Admin {
    /// Binds the address; port 0 picks a free port. Logs `admin listening` with the field `addr`, which scripts rely
    /// on.
    ///
    /// # Errors
    /// The address is in use, or is not of this host.
    pub async fn bind(addr: SocketAddr) -> anyhow::Result<Self> {
        let listener = Listener::bind(&ListenAddress::Tcp(addr), Access::User)
            .await
            .with_context(|| format!("cannot listen on the admin address {addr}"))?;
        let local_addr = listener.address().socket_address().unwrap_or(addr);
        info!(addr = %local_addr, "admin listening");
        Ok(Self {
            listener,
            local_addr,
        })
    }

    /// The bound address.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Answers until the token is cancelled, and keeps the histograms folded.
    ///
    /// # Errors
    /// The errors of [`http::serve`].
    pub async fn serve(
        self,
        health: Health,
        metrics: Exporter,
        token: CancellationToken,
    ) -> anyhow::Result<()> {
        let router = Router::new()
            .route("/livez", get("ok\n"))
            .route("/readyz", get(readyz))
            .with_state(health)
            .route("/metrics", get(render).with_state(metrics.clone()));
        let server = http::serve(self.listener, router, http::Limits::default(), token);
        let upkeep = async {
            let mut ticks = time::interval(UPKEEP_INTERVAL);
            loop {
                ticks.tick().await;
                metrics.run_upkeep();
            }
        };
        tokio::select! {
            served = server => served.context("the admin server failed"),
            () = upkeep => Ok(()),
        }
    }
}

async fn readyz(State(health): State<Health>) -> impl IntoResponse {
    match health.report() {
        (true, text) => (StatusCode::OK, text),
        (false, text) => (StatusCode::SERVICE_UNAVAILABLE, text),
    }
}

async fn render(State(metrics): State<Exporter>) -> impl IntoResponse {
    ([(CONTENT_TYPE, METRICS_TYPE)], metrics.render())
}

#[cfg(test)]
mod tests;
