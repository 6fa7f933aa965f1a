//! A model of the resolver that ovn-kubernetes has without `--enable-dns-name-resolver`, by the rules in its
//! `go-controller/pkg/util/dns.go` and `pkg/ovn/dns_name_resolver/external_dns.go` (August 2026). It is not ovn-kubernetes.
//!
//! - One name after another: the one that is due first.
//! - A name is due again after the smallest TTL of its answer, 5 s for a TTL of 0 or a failure, 30 minutes at most.
//! - An answer replaces the whole set. An equal one is not written.
//! - Names with a wildcard are refused.
//! - A restart looks all names up, and keeps the sets.
//!
//! In favour of the model it asks a CoreDNS of the clients. ovn-kubernetes asks the first name server of its node.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap, HashMap},
    net::{IpAddr, SocketAddr},
    path::Path,
    time::Duration,
};

use hickory_proto::rr::RecordType;
use proto::api::Family;
use serde_json::{Value, json};
use tests::{dns::ask, ovnkube::set_name, ovsdb::Client};
use tokio::time::{Instant, sleep_until};

/// The first argument that makes the bench this program. The others are the database's folder, the DNS server, and the names.
pub(crate) const WORD: &str = "periodic-resolver";

const LONGEST: Duration = Duration::from_secs(30 * 60);
const SHORTEST: Duration = Duration::from_secs(5);

struct PeriodicResolver {
    database: Client,
    server: SocketAddr,
    /// The addresses in the sets, by name.
    written: HashMap<String, BTreeSet<IpAddr>>,
}

pub(crate) fn run(args: &[String]) -> ! {
    let [folder, server, names] = args else {
        panic!("a folder, a DNS server and names are needed");
    };
    let resolver = PeriodicResolver {
        database: Client::connect(Path::new(folder)).unwrap(),
        server: server.parse().unwrap(),
        written: HashMap::new(),
    };
    let names: Vec<String> = names.split(',').map(str::to_owned).collect();
    assert!(
        names.iter().all(|name| !name.starts_with('*')),
        "a wildcard"
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(resolver.run(names))
}

impl PeriodicResolver {
    async fn run(mut self, names: Vec<String>) -> ! {
        let start = Instant::now();
        for name in &names {
            self.make_set(name);
        }
        let mut due: BinaryHeap<_> = names
            .into_iter()
            .map(|name| Reverse((start, name)))
            .collect();
        loop {
            let Reverse((at, name)) = due.pop().unwrap();
            sleep_until(at).await;
            let pause = self.update(&name).await.unwrap_or(SHORTEST);
            due.push(Reverse((Instant::now() + pause.min(LONGEST), name)));
        }
    }

    /// Looks a name up and replaces its set. Returns the TTL, unless the look-up fails.
    async fn update(&mut self, name: &str) -> Option<Duration> {
        let reply = ask(self.server, name, RecordType::A).await.ok()?;
        let ttl = reply.message.answers.iter().map(|it| it.ttl).min()?;
        let addresses: BTreeSet<IpAddr> = reply.addresses().into_iter().collect();
        if self.written.get(name) != Some(&addresses) {
            let all: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
            self.transact(json!({
                "op": "update", "table": "Address_Set",
                "where": [["name", "==", set_name(name, Family::V4)]],
                "row": { "addresses": ["set", all] },
            }));
            self.written.insert(name.to_owned(), addresses);
        }
        match ttl {
            0 => Some(SHORTEST),
            ttl => Some(Duration::from_secs(ttl.into())),
        }
    }

    /// Makes the set of a name, unless it is there.
    fn make_set(&mut self, name: &str) {
        let set = set_name(name, Family::V4);
        let found = self.transact(json!({
            "op": "select", "table": "Address_Set", "where": [["name", "==", set]], "columns": ["name"],
        }));
        if found["rows"]
            .as_array()
            .is_some_and(|rows| !rows.is_empty())
        {
            return;
        }
        self.transact(json!({
            "op": "insert", "table": "Address_Set",
            "row": { "name": set, "external_ids": ["map", [
                ["k8s.ovn.org/owner-controller", "default-network-controller"],
                ["k8s.ovn.org/owner-type", "EgressFirewallDNS"],
                ["k8s.ovn.org/name", name],
                ["ip-family", "v4"],
            ]] },
        }));
    }

    fn transact(&mut self, operation: Value) -> Value {
        let mut results = self.database.transact(vec![operation]).unwrap();
        results.remove(0)
    }
}
