//! From answers of a stock CoreDNS to NetworkPolicies: the collector and the policy-writer together.

use std::{fs, time::Duration};

use serde_json::{Value, json};
use tests::{
    coredns::{CoreDns, free_port, write_zone},
    programs::Program,
    wait::eventually,
    workdir::Workdir,
};

use super::world::{NAMES, World};

const FIREWALLS: &str = "ovn-kubernetes";

const ZONE: &str = "example.com.";

/// How long an address stays after the last answer that had it.
const RETAIN: Duration = Duration::from_secs(4);

const COREFILE: &str = "\
.:{$DNS_PORT} {
    bind 127.0.0.1
    errors
    dnstap unix://{$DNSTAP_SOCKET} full
    file example.com.zone example.com {
        reload 1s
    }
}
";

/// CoreDNS → collector → API server → policy-writer, all ready. Fields are in the order in which they are dropped.
struct WholeWay {
    coredns: CoreDns,
    _collector: Program,
    world: World,
    workdir: Workdir,
    serial: u32,
}

impl WholeWay {
    async fn start(records: &str) -> Self {
        let (world, workdir) = (World::start(&[]).await, Workdir::new());
        world.server.make_namespace(FIREWALLS).await;
        fs::write(workdir.join("Corefile"), COREFILE).unwrap();
        write_zone(&workdir.join("example.com.zone"), ZONE, 1, records);
        let (address, socket) = (free_port(), workdir.join("dnstap.sock"));
        let flags = [
            ("--store", "kube".to_owned()),
            ("--rules", "egressfirewall,dnsresolver".to_owned()),
            ("--objects-namespace", FIREWALLS.to_owned()),
            ("--dnsresolver-objects-namespace", NAMES.to_owned()),
            ("--manage-objects", "always".to_owned()),
            ("--listen", format!("unix://{}", socket.display())),
            ("--resolver", address.to_string()),
            ("--min-ttl", "1s".to_owned()),
            ("--grace", "1s".to_owned()),
            ("--retain", format!("{}s", RETAIN.as_secs())),
        ];
        let flags = flags.map(|(flag, value)| [flag.to_owned(), value]);
        let kubeconfig = world.server.kubeconfig().display().to_string();
        let collector = Program::start_with(
            workdir.path(),
            "collector",
            flags.concat(),
            vec![("KUBECONFIG", kubeconfig)],
        )
        .await;
        let coredns = CoreDns::start_at(workdir.path(), address).await;
        collector.ready().await;
        Self {
            coredns,
            _collector: collector,
            world,
            workdir,
            serial: 1,
        }
    }

    /// Replaces the records of the zone, and waits until CoreDNS serves them.
    async fn set_zone(&mut self, records: &str) {
        self.serial += 1;
        let file = self.workdir.join("example.com.zone");
        write_zone(&file, ZONE, self.serial, records);
        self.coredns.serves(ZONE, self.serial).await;
    }

    async fn resolver(&self, domains: &[&str]) {
        let spec = json!({ "domainList": domains });
        self.world.resolver("a", spec).await;
    }

    /// Waits until the IPMap says this of each domain.
    async fn maps(&self, expected: &Value) {
        eventually("the IPMap", async || {
            let map = self.world.map("a").await.ok_or("there is none")?;
            let found = serde_json::to_value(map.data).unwrap()["domains"].clone();
            let is_same = found == *expected;
            is_same.then_some(()).ok_or_else(|| found.to_string())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_of_a_zone_come_into_a_policy_and_leave_after_retention() {
    let apps = "n1.apps 2 IN A 203.0.113.21\nn2.apps 2 IN AAAA 2001:db8::22";
    let upper = "upper 2 IN A 203.0.113.11\nupper 2 IN AAAA 2001:db8::11";
    let first = format!("www 2 IN A 203.0.113.1\n{upper}\n{apps}");
    let mut way = WholeWay::start(&first).await;
    way.resolver(&[
        "www.example.com",
        "*.apps.example.com",
        "UPPER.Example.com.",
    ])
    .await;
    let looked_up = ["203.0.113.1", "203.0.113.11", "2001:db8::11"];
    way.world.has("a", &looked_up).await;
    // The names under a wildcard are those that clients ask for.
    for name in ["n1.apps.example.com.", "N2.apps.example.com."] {
        way.coredns.look_up(name).await;
    }
    let found = ["203.0.113.21", "2001:db8::22"];
    way.world.has("a", &[&looked_up[..], &found].concat()).await;
    let expected = json!([
        {"name": "www.example.com", "ips": ["203.0.113.1/32"]},
        {"name": "*.apps.example.com", "ips": ["203.0.113.21/32", "2001:db8::22/128"]},
        {"name": "UPPER.Example.com.", "ips": ["203.0.113.11/32", "2001:db8::11/128"]},
    ]);
    way.maps(&expected).await;
    way.world.is_ready("a").await;

    // Names rotate: new addresses come beside the old ones, which leave after their retention.
    let apps = "n1.apps 2 IN A 203.0.113.23\nn2.apps 2 IN AAAA 2001:db8::22";
    let records = format!("www 2 IN A 203.0.113.2\n{upper}\n{apps}");
    way.set_zone(&records).await;
    let new = ["203.0.113.2", "203.0.113.23"];
    way.world.has_at_least("a", &new).await;
    let stay = ["203.0.113.11", "2001:db8::11", "2001:db8::22"];
    way.world.has("a", &[&new[..], &stay].concat()).await;
}
