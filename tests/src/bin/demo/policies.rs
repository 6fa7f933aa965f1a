//! The tour of `--policies`: from DNS answers to NetworkPolicies, in a folder and without OVN. The output has at most 50 lines.

use std::{collections::BTreeSet, fs, net::IpAddr, path::PathBuf, time::Duration};

use hickory_proto::rr::RecordType;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use tests::{
    coredns::{CoreDns, free_port},
    programs::Program,
    store::Store,
    wait::{PATIENCE, eventually},
    workdir::Workdir,
    world::start_collector,
};
use tokio::time::{Instant, interval, sleep, timeout};

use crate::{
    people::{egress, place},
    stage::{INSPECT, TIMES, copy, examples, heading},
};

const WWW: &str = "www.shop.example.";

/// Names under the wildcard of the list.
const UNDER_ASSETS: [&str; 2] = ["css.assets.shop.example.", "img.assets.shop.example."];

/// An address of a name that is in no list.
const TRACKER: &str = "192.0.2.66";

const NAMESPACE: [&str; 2] = ["--dnsresolver-objects-namespace", "names"];

const RULES: [&str; 4] = ["--rules", "dnsresolver", "--retain", "2s"];

/// The servers. Fields are in the order in which they are dropped.
struct Servers {
    coredns: CoreDns,
    collector: Program,
    policy_writer: Program,
    store: Store,
    _workdir: Workdir,
}

/// Runs all steps; with `keep`, then runs until it is dropped.
pub(crate) async fn run(keep: bool) {
    let begun = Instant::now();
    let servers = Servers::start().await;
    a_policy(&servers).await;
    a_wildcard(&servers).await;
    why(&servers).await;
    a_shorter_list(&servers).await;
    if keep {
        play(&servers).await
    }
    drop(servers);
    let seconds = begun.elapsed().as_secs();
    heading(&format!(
        "Done in {seconds} s: no process and no file is left."
    ));
    println!("Next: `scripts/demo --policies --keep` leaves it running.");
    println!("docs/dnsresolver.md installs it in your cluster.");
}

impl Servers {
    async fn start() -> Self {
        heading("1. The servers start");
        let workdir = Workdir::transient();
        for file in ["Corefile", "shop.example.zone"] {
            let from = examples("demo").join(file);
            fs::copy(from, workdir.join(file)).expect("a copy");
        }
        copy(&examples("policies"), workdir.path());
        let store = Store::new(workdir.join("store"));
        let address = free_port();
        let server = address.to_string();
        let resolver = ["--resolver", &server];
        let flags = [&RULES[..], &TIMES, &NAMESPACE, &INSPECT, &resolver].concat();
        let collector = start_collector(&workdir, &store, &flags).await;
        let own = store.address();
        let flags = [&["--store", &own][..], &NAMESPACE, &INSPECT].concat();
        let flags = flags.iter().map(|it| (*it).to_owned()).collect();
        let policy_writer = Program::start(workdir.path(), "policy-writer", flags).await;
        collector.ready().await;
        policy_writer.ready().await;
        let coredns = CoreDns::start_at(workdir.path(), address).await;
        println!(
            "  CoreDNS        stock, at {address}; its Corefile has the line `dnstap unix://… full`"
        );
        println!(
            "  collector      looks up the names of DNSResolvers, and reads CoreDNS's answers"
        );
        println!("  policy-writer  writes their NetworkPolicies and IPMaps into the same folder");
        println!(
            "  DNSResolver    team-a/partners lists www.shop.example and *.assets.shop.example"
        );
        Self {
            coredns,
            collector,
            policy_writer,
            store,
            _workdir: workdir,
        }
    }

    /// A file of an object `partners`.
    fn file(&self, kind: &str) -> PathBuf {
        self.store
            .path()
            .join("team-a")
            .join(kind)
            .join("partners.yaml")
    }

    /// The addresses of the policy, if each of its rules has destinations.
    fn addresses(&self) -> Option<BTreeSet<IpAddr>> {
        let text = fs::read_to_string(self.file("networkpolicies")).ok()?;
        let policy: NetworkPolicy = serde_saphyr::from_str(&text).ok()?;
        let mut addresses = BTreeSet::new();
        for rule in policy.spec?.egress? {
            for peer in rule.to? {
                let block = peer.ip_block?;
                let (address, _) = block.cidr.split_once('/')?;
                addresses.insert(address.parse().ok()?);
            }
        }
        Some(addresses)
    }

    /// Waits until the policy has the address.
    async fn has(&self, address: IpAddr) {
        let arrived = async {
            while !self.addresses().is_some_and(|it| it.contains(&address)) {
                sleep(Duration::from_millis(1)).await;
            }
        };
        let arrived = timeout(PATIENCE, arrived).await;
        arrived.expect("the policy has the address in time");
    }

    fn places(&self) -> [String; 4] {
        let [of_collector, collector] = place("--collector", &self.collector);
        let [of_writer, writer] = place("--policy-writer", &self.policy_writer);
        [of_collector, collector, of_writer, writer]
    }
}

async fn a_policy(servers: &Servers) {
    heading(
        "2. A DNSResolver has a NetworkPolicy with the addresses of its names before a pod asks",
    );
    servers.has([192, 0, 2, 11].into()).await;
    let file = fs::read_to_string(servers.file("networkpolicies")).expect("the policy");
    println!("  $ cat team-a/networkpolicies/partners.yaml");
    let spec = file.lines().skip_while(|line| !line.starts_with("spec:"));
    for line in spec.take(11) {
        println!("    {line}");
    }
}

async fn a_wildcard(servers: &Servers) {
    heading("3. Under a wildcard they come with the answer to the pod");
    // A probe of the collector came back in CoreDNS's stream.
    let blocks = "egress_collector_dns_blocks";
    let streaming = ["state=\"streaming\""];
    servers.collector.counts(blocks, &streaming, 1.0).await;
    for name in UNDER_ASSETS {
        // The second after a write is over.
        sleep(Duration::from_millis(1_100)).await;
        let reply = servers.coredns.ask(name, RecordType::A).await;
        for address in reply.addresses() {
            servers.has(address).await;
            let millis = reply.at.elapsed().as_secs_f64() * 1e3;
            println!("  {name:<28} {address:<12} in the policy {millis:.1} ms after the answer");
        }
    }
    println!("  The first change is written at once, and changes of the next second together.");
}

async fn why(servers: &Servers) {
    heading("4. Why an address is in a policy, and why another one is not");
    let places = &servers.places()[2..];
    egress(&["explain", "192.0.2.11"], places, 4).await;
    egress(&["explain", TRACKER], places, 3).await;
}

async fn a_shorter_list(servers: &Servers) {
    heading("5. A name leaves the list, and its addresses leave the policy");
    let file = servers.file("dnsresolvers");
    let text = fs::read_to_string(&file).expect("the DNSResolver");
    let lines = text.lines().filter(|line| !line.contains("assets"));
    let shorter: Vec<_> = lines.collect();
    let since = Instant::now();
    // As an editor does.
    let new = file.with_extension("new");
    let written = fs::write(&new, shorter.join("\n")).and_then(|()| fs::rename(&new, &file));
    written.expect("the file is replaced");
    let www = servers.coredns.ask(WWW, RecordType::A).await.addresses();
    let www = BTreeSet::from_iter(www);
    eventually("the addresses leave", async || {
        let addresses = servers.addresses().unwrap_or_default();
        let v4: BTreeSet<_> = addresses.into_iter().filter(IpAddr::is_ipv4).collect();
        (v4 == www).then_some(()).ok_or_else(|| format!("{v4:?}"))
    })
    .await;
    println!(
        "  Without *.assets.shop.example after {} ms:",
        since.elapsed().as_millis()
    );
    egress(&["list", "--name", "www"], &servers.places(), 4).await;
    egress(&["verify"], &servers.places()[2..], 2).await;
}

async fn play(servers: &Servers) -> ! {
    heading("It keeps running; Ctrl-C ends it. Commands for another terminal:");
    let places = servers.places().join(" ");
    let dns = servers.coredns.address();
    println!("  dig @{} -p {} www.shop.example A", dns.ip(), dns.port());
    println!("  target/debug/egress explain {WWW} {places}");
    println!("  target/debug/egress list {places}");
    println!(
        "  $EDITOR {}     # change the list",
        servers.file("dnsresolvers").display()
    );
    println!("  cat {}", servers.file("networkpolicies").display());
    let mut ticks = interval(Duration::from_secs(2));
    loop {
        ticks.tick().await;
        servers.coredns.ask(WWW, RecordType::A).await;
    }
}
