//! The forwarder that holds answers.

use std::sync::Arc;

use runtime::{leader::Leader, shutdown::Tasks};
use tokio::sync::{mpsc, watch};

use super::Program;
use crate::{
    cluster::networks::Networks,
    hold::{Gate, Hold, HoldState, MOST_HELD},
    lookup::Servers,
    publish::HeldAnswer,
};

impl Program {
    /// Starts the forwarder, if a flag names its address. Returns its state, and the answers that it holds.
    pub(super) async fn hold(
        &self,
        leader: &Leader,
        networks: &watch::Receiver<Option<Arc<Networks>>>,
        lookup_servers: &Option<watch::Receiver<Servers>>,
        tasks: &mut Tasks,
    ) -> anyhow::Result<(Option<HoldState>, mpsc::Receiver<HeldAnswer>)> {
        let (sender, held) = mpsc::channel(MOST_HELD);
        let Some(url) = &self.args.hold_listen else {
            return Ok((None, held));
        };
        let state = HoldState::default();
        let (index, clock) = (Arc::clone(&self.index), self.clock.clone());
        let hold = Hold {
            listen: url.listen,
            upstreams: url.upstreams().await?,
            leader: leader.clone(),
            gate: Gate::new(index, clock, sender, state.clone()),
            networks: networks.clone(),
            lookup_servers: lookup_servers.clone(),
        };
        tasks.spawn_alone("hold", hold.run(tasks.token()));
        Ok((Some(state), held))
    }
}
