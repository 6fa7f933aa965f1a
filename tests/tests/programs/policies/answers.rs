//! `egress` about policies: from answers of a stock CoreDNS to the files of NetworkPolicies.

use serde_json::{Value, json};
use tests::{
    programs::{self, Program},
    wait::eventually,
    world::{Setup, World},
};

use super::write;

const NAME: &str = "www.example.com.";

/// CoreDNS, a collector, an ovn-writer and a policy-writer, with a folder. Fields are in the order in which they are dropped.
struct Policies {
    _policy_writer: Program,
    world: World,
    /// The flags that name the programs.
    places: Vec<String>,
}

fn inspect_of(program: &Program) -> String {
    let messages = program.messages();
    let mut messages = messages.iter();
    let listens = messages.find(|it| it["message"] == "inspect listening");
    listens.unwrap()["addr"].as_str().unwrap().to_owned()
}

impl Policies {
    async fn start(allow: &[&str]) -> Self {
        let zone = "www IN A 192.0.2.10\nmail IN A 192.0.2.20\nonly IN A 192.0.2.30\n";
        let mut world = World::start(Setup {
            zone,
            allow,
            ..Setup::default()
        })
        .await;
        let rules = ["--rules", "egressfirewall,dnsresolver"];
        let namespace = ["--dnsresolver-objects-namespace", "names"];
        let inspect = ["--inspect", "tcp://127.0.0.1:0"];
        let probes = ["--flush-name", "flush.example.com"];
        let flags = [&rules[..], &namespace, &inspect, &probes].concat();
        world.restart_asking(&flags).await;
        let store = world.store.address();
        let flags = [&["--store", &store][..], &namespace, &inspect].concat();
        let flags = flags.iter().map(|it| (*it).to_owned()).collect();
        let policy_writer = Program::start(world.workdir.path(), "policy-writer", flags).await;
        policy_writer.ready().await;
        let places = [
            ("--collector", &world.collector),
            ("--ovn-writer", &world.ovn_writer),
            ("--policy-writer", &policy_writer),
        ];
        let places = places.map(|(flag, program)| format!("{flag}={}", inspect_of(program)));
        Self {
            _policy_writer: policy_writer,
            world,
            places: places.to_vec(),
        }
    }

    fn file(&self, kind: &str, name: &str) -> std::path::PathBuf {
        let folder = self.world.store.path().join("team-a").join(kind);
        folder.join(format!("{name}.yaml"))
    }

    fn resolve(&self, name: &str, domains: &[&str]) {
        let object = json!({
            "apiVersion": "dns.k8s.delta10.nl/v1alpha1",
            "kind": "DNSResolver",
            "spec": {"domainList": domains},
        });
        write(&self.file("dnsresolvers", name), &object);
    }

    /// A policy of an administrator.
    fn allow_dns(&self, name: &str) {
        let ports = json!([{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]);
        let object = json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "spec": {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"ports": ports}]},
        });
        write(&self.file("networkpolicies", name), &object);
    }

    async fn egress(&self, args: &[&str]) -> (Option<i32>, String) {
        let places = self.places.iter().map(String::as_str);
        let args: Vec<&str> = args.iter().copied().chain(places).collect();
        let output = programs::run("egress", &args).await;
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    }

    /// Waits until the command ends with this status, and has these parts.
    async fn says(&self, args: &[&str], status: i32, parts: &[&str]) -> String {
        eventually(&format!("{args:?}: {parts:?}"), async || {
            let (ended, text) = self.egress(args).await;
            let is_right = ended == Some(status) && parts.iter().all(|part| text.contains(part));
            is_right
                .then_some(text.clone())
                .ok_or(format!("{ended:?}: {text}"))
        })
        .await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_administrator_learns_which_policy_has_an_address() {
    let it = Policies::start(&["only.example.com."]).await;
    it.allow_dns("dns");
    it.resolve("partners", &["www.example.com", "mail.example.com"]);
    let parts = [
        "www.example.com. is there, with 1 address.",
        "DNSResolver team-a/partners, which lists www.example.com: NetworkPolicy, IPMap",
        "192.0.2.10: in the NetworkPolicy and the IPMap",
    ];
    let text = it.says(&["explain", NAME], 0, &parts).await;
    // The name is in no EgressFirewall, so the address sets are of no matter.
    assert!(!text.contains("OVN's database"), "{text}");
    it.says(
        &["explain", "192.0.2.20"],
        0,
        &["which lists mail.example.com"],
    )
    .await;
    // A name of an EgressFirewall is in no policy, which is of no matter either.
    let text = it
        .says(&["explain", "only.example.com"], 1, &["no rule refers"])
        .await;
    assert!(!text.contains("In policies"), "{text}");
    let (status, text) = it.egress(&["explain", "198.51.100.9"]).await;
    assert_eq!(status, Some(1), "{text}");
    assert!(
        text.contains("no DNSResolver has a name with this address"),
        "{text}"
    );
    let json = it.egress(&["explain", NAME, "-o", "json"]).await.1;
    let json: Value = serde_json::from_str(&json).unwrap();
    let told = &json["policyWriter"];
    assert_eq!(
        (&told["isThere"], &told["leader"]),
        (&json!(true), &json!(true))
    );

    let text = it.says(&["list"], 0, &["POLICIES", "192.0.2.30"]).await;
    let line = |address: &str| text.lines().find(|line| line.contains(address)).unwrap();
    assert!(line("192.0.2.10").ends_with("  team-a/partners"), "{text}");
    assert!(line("192.0.2.30").ends_with("  -"), "{text}");
    it.says(
        &["verify"],
        0,
        &["1 DNSResolvers, 2 objects: 0 differ from the statuses"],
    )
    .await;
    let well = [
        "✓ policy-writers: 1 answer",
        "✓ DNSResolvers: 1 DNSResolver, none in trouble",
    ];
    // Of a name of an EgressFirewall, OVN's database has no rule.
    let unreferenced =
        "✗ Address sets: only.example.com.: no rule in OVN's database refers to its sets";
    it.says(&["check"], 1, &[&well[..], &[unreferenced]].concat())
        .await;
}
