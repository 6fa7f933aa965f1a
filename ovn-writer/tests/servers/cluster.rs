//! A cluster of real `ovsdb-server`s.

use std::process::Command;

use tests::{
    ovn::shared,
    ovsdb_server::{NORTHBOUND, OvsdbServer, run, tool},
    wait::eventually,
    workdir::Workdir,
};

const DATABASE: &str = "OVN_Northbound";

/// Servers of one clustered database.
pub(crate) struct Cluster {
    pub(crate) servers: Vec<OvsdbServer>,
    _workdir: Workdir,
}

impl Cluster {
    /// Creates a cluster of `size` servers, and waits until all have joined.
    pub(crate) async fn start(size: usize) -> Self {
        let workdir = Workdir::new();
        let mut servers = Vec::new();
        for index in 0..size {
            let (name, path) = (format!("s{index}"), |name: &str| {
                workdir.join(name).display().to_string()
            });
            let database = path(&format!("{name}.db"));
            // The servers use local sockets between them, so that ports do not collide.
            let address = |index| format!("unix:{}", path(&format!("s{index}.raft")));
            if index == 0 {
                let schema = shared(NORTHBOUND).display().to_string();
                tool(&["create-cluster", &database, &schema, &address(0)]);
            } else {
                tool(&[
                    "join-cluster",
                    &database,
                    DATABASE,
                    &address(index),
                    &address(0),
                ]);
            }
            servers.push(OvsdbServer::start(workdir.path(), &name, &[]).await);
        }
        let cluster = Self {
            servers,
            _workdir: workdir,
        };
        cluster.is_whole().await;
        cluster
    }

    pub(crate) fn remotes(&self) -> String {
        let remotes: Vec<_> = self.servers.iter().map(OvsdbServer::remote).collect();
        remotes.join(",")
    }

    /// Waits until every server is connected to the cluster, and all agree on the leader.
    pub(crate) async fn is_whole(&self) {
        eventually("every server belongs to the cluster", async || {
            let leaders: Vec<_> = (0..self.servers.len())
                .map(|index| self.status(index, "Leader"))
                .collect::<Result<_, _>>()?;
            // The leader calls itself `self`.
            let followed = |leader: &&String| leader.as_str() != "self";
            let mut others: Vec<_> = leaders.iter().filter(followed).collect();
            others.dedup();
            let whole = others.len() + 1 == leaders.len().min(2)
                && leaders.iter().filter(|leader| !followed(leader)).count() == 1
                && !others.iter().any(|leader| leader.as_str() == "unknown");
            if whole {
                Ok(())
            } else {
                Err(format!("{leaders:?}"))
            }
        })
        .await;
    }

    pub(crate) async fn leader(&self) -> usize {
        eventually("a server leads", async || {
            let mut all = 0..self.servers.len();
            all.find(|index| {
                self.status(*index, "Role")
                    .is_ok_and(|role| role == "leader")
            })
            .ok_or_else(|| "none".to_owned())
        })
        .await
    }

    /// A line of `cluster/status`.
    pub(crate) fn status(&self, index: usize, what: &str) -> Result<String, String> {
        let status = self.servers[index].control(&["cluster/status", DATABASE])?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(what)?.strip_prefix(": "));
        line.map(str::to_owned).ok_or(status)
    }

    /// Runs `ovn-nbctl` against the leader.
    pub(crate) fn nbctl(&self, args: &[&str]) -> Result<String, String> {
        let mut command = Command::new("ovn-nbctl");
        let command = command
            .arg("--timeout=10")
            .arg(format!("--db={}", self.remotes()));
        run(command.args(args))
    }

    /// Another client adds an address to the row `a1`.
    pub(crate) fn add(&self, address: &str) {
        self.nbctl(&["add", "Address_Set", "a1", "addresses", address])
            .unwrap();
    }

    /// Makes the leader transfer its lead, and returns the old leader.
    pub(crate) async fn hand_over(&self) -> usize {
        let leader = self.leader().await;
        self.servers[leader]
            .control(&["cluster/failure-test", "transfer-leadership"])
            .unwrap();
        eventually("another server leads", async || match self.leader().await {
            new if new != leader => Ok(()),
            _ => Err("not yet".to_owned()),
        })
        .await;
        leader
    }
}
