//! A new name under a wildcard that has many names: how soon its addresses are in the set, and that the object is never
//! written by two collectors at once.

use std::{
    collections::BTreeMap,
    fs,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use hickory_proto::rr::RecordType;
use k8s_openapi::{api::discovery::v1::EndpointSlice, jiff::Timestamp};
use kube::{Api, api::PostParams};
use serde_json::json;
use tests::{
    coredns::{CoreDns, free_port},
    dns::ask,
    kube::ApiServer,
    monitor::{Monitor, Update},
    network::Network,
    or_skip,
    programs::Program,
    soak::{judge, or_long, print_delays},
    wait::{PATIENCE, eventually, eventually_within},
    workdir::Workdir,
};
use tokio::time::{Instant, sleep};

use crate::{collectors::allow, databases::Ruled};

const WILDCARD: &str = "*.wide.test.";

/// The times for a new name under 200 others, with a probe every 10 ms.
const MEDIAN: Duration = Duration::from_millis(60);
const LATEST: Duration = Duration::from_millis(150);

/// How long a standby waits for the leader.
const STANDBY_WAIT: Duration = Duration::from_secs(2);

/// Names under the wildcard before the new ones.
fn sizes() -> &'static [usize] {
    or_long(&[1, 30], &[1, 60, 200, 960])
}

/// New names for each size.
fn new_names() -> usize {
    or_long(5, 60)
}

/// CoreDNS answers the probes itself; `n3-7.wide.test` has the addresses 11.1.3.7 and 11.2.3.7.
const COREFILE: &str = r#"
.:{$DNS_PORT} {
    bind ADDRESS
    dnstap tcp://FIRST full
    dnstap tcp://SECOND full
    template ANY ANY cluster.local {
        rcode NXDOMAIN
    }
    template IN A wide.test {
        match ^n([0-9]+)-([0-9]+)[.]
        answer "{{ .Name }} 3600 IN A 11.1.{{ index .Match 1 }}.{{ index .Match 2 }}"
        answer "{{ .Name }} 3600 IN A 11.2.{{ index .Match 1 }}.{{ index .Match 2 }}"
    }
    template ANY ANY wide.test {
        rcode NOERROR
    }
}
"#;

/// The name of a number, and its addresses.
fn name_and_ips(number: usize) -> (String, [IpAddr; 2]) {
    let [.., high, low] = number.to_be_bytes();
    let ips = [1, 2].map(|second| [11, second, high, low].into());
    (format!("n{high}-{low}.wide.test."), ips)
}

/// Two collectors, the database and CoreDNS. Fields are in the order in which they are dropped.
struct Cluster {
    coredns: CoreDns,
    _collectors: [Program; 2],
    _writer: Program,
    database: Ruled,
    _network: Network,
    _workdir: Workdir,
    server: ApiServer,
    names: usize,
}

async fn collector(server: &ApiServer, namespace: &str, listener: SocketAddr) -> Program {
    let args = [
        "--store=kube".to_owned(),
        format!("--objects-namespace={namespace}"),
        "--manage-objects=always".to_owned(),
        format!("--listen=tcp://{listener}"),
        format!("--resolver-service={namespace}/dns"),
        "--flush-probe=10ms".to_owned(),
    ];
    let environment = vec![("KUBECONFIG", server.kubeconfig().display().to_string())];
    let program =
        Program::start_with(server.folder(), "collector", args.to_vec(), environment).await;
    program.ready().await;
    program
}

impl Cluster {
    /// An error is the reason why this process may not create networks.
    async fn start() -> Result<Self, String> {
        let workdir = Workdir::new();
        let network = Network::new(workdir.path()).await?;
        let server = ApiServer::start().await;
        let namespace = server.namespace().await;
        allow(&server, &namespace, &[WILDCARD]).await;
        let slices: Api<EndpointSlice> = Api::namespaced(server.client().await, &namespace);
        let slice = json!({
            "metadata": { "name": "dns", "labels": { "kubernetes.io/service-name": "dns" } },
            "addressType": "IPv4",
            "endpoints": [{ "addresses": [network.inside().to_string()] }],
            "ports": [{ "name": "dns", "port": 5353, "protocol": "UDP" }],
        });
        let slice = serde_json::from_value(slice).unwrap();
        slices.create(&PostParams::default(), &slice).await.unwrap();
        let listener = || SocketAddr::new(network.outside(), free_port().port());
        let (first, second) = (listener(), listener());
        let collectors = [
            collector(&server, &namespace, first).await,
            collector(&server, &namespace, second).await,
        ];
        let database = Ruled::start(&[WILDCARD.to_owned()]).await;
        let writer = database.writer(&server.kubeconfig(), &namespace, &[]).await;
        let corefile = COREFILE
            .replace("ADDRESS", &network.inside().to_string())
            .replace("FIRST", &first.to_string())
            .replace("SECOND", &second.to_string());
        fs::write(workdir.join("Corefile"), corefile).unwrap();
        let coredns = CoreDns::start_in(workdir.path(), &network).await;
        eventually("both hear, both probe, and one leads", async || {
            let (mut leaders, mut streaming) = (0.0, 0.0);
            for program in &collectors {
                let metric = async |name, labels: &[&str]| {
                    let metric = program.admin().metric(name, labels).await;
                    metric.map_err(|error| error.to_string())
                };
                if metric("egress_collector_connections", &[]).await? < 0.5 {
                    return Err("one hears nothing".to_owned());
                }
                leaders += metric("egress_replica_leading", &[]).await?;
                streaming +=
                    metric("egress_collector_dns_blocks", &["state=\"streaming\""]).await?;
            }
            let is_right = leaders > 0.5 && leaders < 1.5 && streaming > 1.5;
            is_right
                .then_some(())
                .ok_or_else(|| format!("{leaders} lead, {streaming} receive probes"))
        })
        .await;
        Ok(Self {
            coredns,
            _collectors: collectors,
            _writer: writer,
            database,
            _network: network,
            _workdir: workdir,
            server,
            names: 0,
        })
    }

    /// A client asks for a new name. Returns when it had the answer, and the number of the name.
    async fn ask_for_new(&mut self) -> (Instant, usize) {
        self.names += 1;
        let (name, _) = name_and_ips(self.names);
        let reply = ask(self.coredns.address(), &name, RecordType::A).await;
        (reply.unwrap().at, self.names)
    }

    /// Waits until the set has the addresses of all names.
    async fn settles(&self) {
        let count = 2 * self.names;
        eventually_within(4 * PATIENCE, "all addresses are in the set", async || {
            let rows = self.database.northbound.rows()?;
            let found: usize = rows.iter().map(|row| row.addresses.len()).sum();
            (found == count)
                .then_some(())
                .ok_or_else(|| format!("{found} of {count}"))
        })
        .await;
    }

    /// From the answer to the row, for new names under this many others. No two writes may overlap meanwhile.
    async fn delays(&mut self, size: usize) -> Vec<Duration> {
        while self.names < size {
            self.ask_for_new().await;
        }
        self.settles().await;
        let monitor = Monitor::start(self.database.workdir.path()).await;
        let (began, mut told) = (Timestamp::now(), Vec::new());
        for _ in 0..new_names() {
            sleep(Duration::from_millis(fastrand::u64(500..700))).await;
            told.push(self.ask_for_new().await);
        }
        self.settles().await;
        monitor.departures().await;
        let came = arrivals(&monitor.updates());
        let delay = |(at, number): &(Instant, usize)| {
            let both = name_and_ips(*number).1.map(|ip| came[&ip]);
            both.into_iter().max().unwrap() - *at
        };
        let mut delays: Vec<_> = told.iter().map(delay).collect();
        delays.sort_unstable();
        // A standby rightly writes what the leader has not written in two seconds.
        if delays.iter().all(|delay| *delay < STANDBY_WAIT) {
            self.no_two_write_at_once(began);
        }
        delays
    }

    fn no_two_write_at_once(&self, since: Timestamp) {
        // The collectors are its only clients that write statuses.
        let asked = ("update", "dnsnameresolvers/status");
        let mut writes = self.server.spans("admin", asked);
        writes.retain(|(began, ..)| *began >= since);
        writes.sort_unstable();
        assert!(!writes.is_empty());
        let refused: Vec<_> = writes.iter().filter(|(.., code)| *code != 200).collect();
        assert!(refused.is_empty(), "{refused:?} of {}", writes.len());
        for pair in writes.windows(2) {
            assert!(pair[0].1 <= pair[1].0, "two at once: {pair:?}");
        }
    }
}

/// When each address was first in the set.
fn arrivals(updates: &[Update]) -> BTreeMap<IpAddr, Instant> {
    let mut came = BTreeMap::new();
    for update in updates {
        for row in update.rows.values().flatten() {
            for ip in row.sorted_addresses() {
                came.entry(ip).or_insert(update.at);
            }
        }
    }
    came
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_name_under_a_wide_wildcard_is_in_its_set_soon() {
    let mut cluster = or_skip!(Cluster::start().await);
    let mut promised = None;
    for &size in sizes() {
        let delays = cluster.delays(size).await;
        let last = delays.len() - 1;
        if size == 200 {
            promised = Some([delays[last / 2], delays[last * 99 / 100]]);
        }
        let what = format!("a new name under {size} others, answer to row");
        print_delays(&what, delays);
    }
    if let Some([median, latest]) = promised {
        judge("the median under 200 others", median, MEDIAN);
        judge("the 99th percentile under 200 others", latest, LATEST);
    }
}
