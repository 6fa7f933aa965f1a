//! ovn-kubernetes without `--enable-dns-name-resolver`: it looks names up itself.

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use hickory_proto::rr::RecordType;
use proto::api::Family;
use tokio::{task::JoinSet, time::sleep};

use super::controller::Controller;
use crate::{dns::ask, wait::eventually};

/// Its own resolver. On a timer it queries one server for each name. It replaces the whole `addresses` column of the
/// sets, under the name as written, with that answer. Without an answer it changes nothing. It ends on drop.
#[derive(Debug)]
pub struct OwnResolver {
    rounds: Arc<AtomicUsize>,
    _task: JoinSet<()>,
}

impl OwnResolver {
    /// Looks these names up from now on, one round each `every`. Their sets must exist.
    pub fn start(folder: &Path, server: SocketAddr, names: &[&str], every: Duration) -> Self {
        let mut controller = Controller::new(folder.to_owned());
        let names: Vec<String> = names.iter().copied().map(str::to_owned).collect();
        let rounds = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&rounds);
        let mut task = JoinSet::new();
        task.spawn(async move {
            loop {
                for name in &names {
                    for (family, kind) in Family::ALL
                        .into_iter()
                        .zip([RecordType::A, RecordType::AAAA])
                    {
                        let Ok(reply) = ask(server, name, kind).await else {
                            continue;
                        };
                        let addresses: BTreeSet<String> =
                            reply.addresses().iter().map(IpAddr::to_string).collect();
                        // If the database is down, the next round writes it.
                        controller.replace(name, family, &addresses);
                    }
                }
                count.fetch_add(1, Ordering::Relaxed);
                sleep(every).await;
            }
        });
        Self {
            rounds,
            _task: task,
        }
    }

    /// Waits for this many further rounds.
    pub async fn more(&self, rounds: usize) {
        let wanted = self.rounds.load(Ordering::Relaxed) + rounds;
        eventually("ovn-kubernetes looks names up", async || {
            let count = self.rounds.load(Ordering::Relaxed);
            (count >= wanted)
                .then_some(())
                .ok_or_else(|| count.to_string())
        })
        .await;
    }
}
