//! All programs together, in a folder of their own.

use std::{fs, net::SocketAddr};

use proto::api::Family;

use crate::{
    coredns::{self, CoreDns},
    dns::Reply,
    northbound::{self, Northbound, Row},
    programs::Program,
    store::Store,
    wait::eventually,
    workdir::Workdir,
};

/// CoreDNS's zones in tests: `example.com`, and `cluster.local`, which is empty. Names in `up.test` are forwarded to the
/// upstream, if there is one.
const COREFILE: &str = r#"
.:{$DNS_PORT} {
    bind 127.0.0.1
    errors
    dnstap unix://{$DNSTAP_SOCKET} full
    template ANY ANY cluster.local {
        rcode NXDOMAIN
    }
    file example.com.zone example.com {
        reload 1s
    }
    FORWARD
}
"#;

const ORIGIN: &str = "example.com.";

#[derive(Clone, Debug, Default)]
pub struct Setup<'a> {
    /// The records of `example.com`, with names relative to it; the default TTL is 300 seconds.
    pub zone: &'a str,
    /// The names that the EgressFirewall of the namespace `team` allows.
    pub allow: &'a [&'a str],
    /// The server that CoreDNS asks for all names in `up.test`.
    pub upstream: Option<SocketAddr>,
    /// Additional flags of the collector.
    pub collector: &'a [&'a str],
}

/// CoreDNS → collector → store → ovn-writer → northbound database, all ready.
///
/// Fields are in the order in which they are dropped: the folder goes last.
#[derive(Debug)]
pub struct World {
    /// Streams to the collector.
    pub coredns: CoreDns,
    /// Reads CoreDNS's stream, writes the store.
    pub collector: Program,
    /// Reads the store, writes the database.
    pub ovn_writer: Program,
    pub northbound: Northbound,
    /// The store that both programs share.
    pub store: Store,
    /// Holds sockets, logs and data.
    pub workdir: Workdir,
}

impl World {
    /// Starts everything and waits until it is ready.
    pub async fn start(setup: Setup<'_>) -> Self {
        let workdir = Workdir::new();
        let store = Store::new(workdir.join("store"));
        store.allow("team", setup.allow);
        let forward = setup
            .upstream
            .map(|upstream| format!("forward up.test {upstream}"));
        let corefile = COREFILE.replace("FORWARD", &forward.unwrap_or_default());
        fs::write(workdir.join("Corefile"), corefile).expect("a Corefile");
        coredns::write_zone(&workdir.join("example.com.zone"), ORIGIN, 1, setup.zone);
        Self::start_in(workdir, store, setup.collector).await
    }

    /// Starts everything in a folder with a `Corefile`, and waits until it is ready.
    pub async fn start_in(workdir: Workdir, store: Store, collector: &[&str]) -> Self {
        let northbound = Northbound::start(workdir.path()).await;
        Self::start_with(workdir, store, northbound, collector).await
    }

    /// Starts everything but the database, which must already run.
    pub async fn start_with(
        workdir: Workdir,
        store: Store,
        northbound: Northbound,
        collector: &[&str],
    ) -> Self {
        let collector = start_collector(&workdir, &store, collector).await;
        let ovn_writer = start_ovn_writer(&workdir, &store).await;
        collector.ready().await;
        ovn_writer.ready().await;
        // Last, since CoreDNS dials the collector when it starts and then only every 10 seconds.
        let coredns = CoreDns::start(workdir.path()).await;
        Self {
            coredns,
            collector,
            ovn_writer,
            northbound,
            store,
            workdir,
        }
    }

    /// Restarts the collector with these flags, so that it queries this CoreDNS; then restarts CoreDNS itself, which
    /// would otherwise redial the collector only after 10 seconds.
    pub async fn restart_asking(&mut self, collector: &[&str]) {
        self.collector.process().kill();
        let server = self.coredns.address().to_string();
        let flags = [&["--resolver", &server], collector].concat();
        self.collector = start_collector(&self.workdir, &self.store, &flags).await;
        self.collector.ready().await;
        self.coredns.restart().await;
    }

    /// Looks a name up in both families, like a pod.
    pub async fn look_up(&self, name: &str) -> [Reply; 2] {
        self.coredns.look_up(name).await
    }

    /// Waits until the set of the name has exactly these addresses, and returns its row.
    pub async fn expect_set(&self, name: &str, family: Family, addresses: &[&str]) -> Row {
        let wanted: Vec<&str> = addresses.to_vec();
        let what = format!("{family} addresses {wanted:?} in the set of {name}");
        eventually(&what, async || {
            match self.northbound.sets(name, family)?.as_slice() {
                [row] if row.addresses.iter().eq(sorted(&wanted)) => Ok(row.clone()),
                [] => Err("there is no row".to_owned()),
                [row] => Err(row.to_string()),
                rows => Err(format!("{} rows", rows.len())),
            }
        })
        .await
    }

    /// Looks the name up until the address is in its set: look-ups during a program's restart are lost.
    pub async fn expect_flow(&self, name: &str, family: Family, address: &str) {
        self.expect_flow_through(name, name, family, address).await;
    }

    /// [`World::expect_flow`] for a name under a wildcard's rule.
    pub async fn expect_flow_through(&self, rule: &str, name: &str, family: Family, address: &str) {
        eventually(&format!("{address} in the set of {rule}"), async || {
            self.look_up(name).await;
            let rows = self.northbound.sets(rule, family)?;
            let arrived = rows.iter().any(|row| row.addresses.contains(address));
            arrived.then_some(()).ok_or_else(|| format!("{rows:?}"))
        })
        .await;
    }
}

/// Starts a collector on `dnstap.sock` of the folder.
pub async fn start_collector(workdir: &Workdir, store: &Store, more: &[&str]) -> Program {
    let socket = format!("unix://{}", workdir.join("dnstap.sock").display());
    let mut args = flags(&["--store", &store.address(), "--listen", &socket]);
    args.extend(flags(more));
    Program::start(workdir.path(), "collector", args).await
}

/// Starts an ovn-writer for the database of the folder.
pub async fn start_ovn_writer(workdir: &Workdir, store: &Store) -> Program {
    let remote = northbound::remote(workdir.path());
    let store = store.address();
    let inspect = "--inspect=tcp://127.0.0.1:0";
    let args = flags(&["--store", &store, "--nb", &remote, inspect]);
    Program::start(workdir.path(), "ovn-writer", args).await
}

fn flags(flags: &[&str]) -> Vec<String> {
    flags.iter().copied().map(str::to_owned).collect()
}

/// Sorted like a set of strings.
fn sorted<'a>(addresses: &[&'a str]) -> Vec<&'a str> {
    let mut sorted = addresses.to_vec();
    sorted.sort_unstable();
    sorted
}
