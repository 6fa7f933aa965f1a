//! The pool of the additional servers.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use super::{Config, pool::Pool, result::LookupResult, servers::Servers};

pub(super) struct Asking {
    servers: watch::Receiver<Servers>,
    rounds: mpsc::Sender<LookupResult>,
    pool: Arc<Pool>,
    per_server: usize,
}

impl Asking {
    /// As configured, if there are any.
    pub(super) fn new(config: &Config) -> Option<Self> {
        let auxiliary_servers = config.auxiliary_servers.clone()?;
        let mut servers = auxiliary_servers.servers;
        servers.mark_changed();
        Some(Self {
            servers,
            rounds: auxiliary_servers.rounds,
            pool: Arc::default(),
            per_server: config.per_server.max(1),
        })
    }

    /// The current servers, and where their results go; `None` without servers.
    pub(super) fn pool(&mut self) -> Option<(Arc<Pool>, mpsc::Sender<LookupResult>)> {
        if self.servers.has_changed().unwrap_or(false) {
            let servers = Arc::clone(&self.servers.borrow_and_update());
            self.pool = Arc::new(self.pool.with(&servers, self.per_server));
        }
        (self.pool.count().0 > 0).then(|| (Arc::clone(&self.pool), self.rounds.clone()))
    }
}
