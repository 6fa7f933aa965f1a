//! With an API server that is slow or refuses writes, two collectors send hardly more requests than one. A single
//! collector and a pair hear the same CoreDNS, and keep objects of the same names in separate namespaces.

use std::time::Duration;

use tests::{
    coredns::{CoreDns, free_port},
    kube::ApiServer,
    soak::or_long,
    told::Clients,
    upstream::Scripted,
    wait::eventually,
    workdir::Workdir,
};
use tokio::time::sleep;

use super::instances::{Instances, start_coredns, upstream};
use crate::{
    collectors::{Objects, allow},
    proxy::{Proxy, Refusal},
};

/// How many names change their addresses.
const NAMES: u32 = 200;

/// Queries a second, for each name in turn.
const RATE: u32 = 40;

/// In a short run the first requests count: this many writes may be pending when the API server begins to refuse.
const FIRST: usize = 64;

/// The maximum ratio of requests of two instances to those of one.
const MOST: f64 = 1.2;

fn name(i: u32) -> String {
    format!("n{i}.test.")
}

/// Fields are in the order in which they are dropped.
struct Both {
    _clients: Clients,
    _coredns: CoreDns,
    one: Instances,
    two: Instances,
    _upstream: Scripted,
    _workdir: Workdir,
}

impl Both {
    async fn start(server: &ApiServer) -> Self {
        let names: Vec<_> = (0..NAMES).map(name).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        allow(server, &server.namespace().await, &names).await;
        // Each address lasts ten seconds, and its TTL at most ten seconds more.
        let (upstream, dns) = (upstream(2, Duration::from_secs(10)).await, free_port());
        let workdir = Workdir::new();
        let one = Instances::start(server, &server.namespace().await, 1, dns).await;
        let two = Instances::start(server, &server.namespace().await, 2, dns).await;
        let lines = one.release.dnstap() + &two.release.dnstap();
        let coredns = start_coredns(&workdir, dns, &lines, &upstream).await;
        for instances in [&one, &two] {
            instances.are_whole().await;
            let objects = Objects::of(server, &instances.namespace).await;
            eventually("an address of each name", async || {
                let listed = objects.api.list(&Default::default()).await;
                let listed = listed.map_err(|error| error.to_string())?.items;
                let with = listed.iter().filter(|it| it.status.is_some()).count();
                (with == NAMES as usize)
                    .then_some(())
                    .ok_or_else(|| with.to_string())
            })
            .await;
        }
        let question = |number: u32| ("", name(number % NAMES));
        Self {
            _clients: Clients::start(coredns.address(), RATE, question),
            _coredns: coredns,
            one,
            two,
            _upstream: upstream,
            _workdir: workdir,
        }
    }

    /// The number of status writes in this time, of one instance and of two.
    async fn writes(&self, lasts: Duration) -> [usize; 2] {
        let so_far = || [&self.one, &self.two].map(|it| it.status_writes().values().sum::<usize>());
        let [one, two] = so_far();
        sleep(lasts).await;
        let [after_one, after_two] = so_far();
        [after_one - one, after_two - two]
    }

    async fn judge(&self, what: &str, lasts: Duration) {
        let [one, two] = self.writes(lasts).await;
        let seconds = usize::try_from(lasts.as_secs()).unwrap();
        // Without a leader there are few requests: each standby ends up with one try a minute.
        let most = (one as f64 * MOST).ceil() as usize + or_long(FIRST, 0);
        let most = most.max(seconds / 2);
        println!("{what}: {one} writes of statuses by one instance, {two} by two, at most {most}");
        assert!(two <= most, "{what}: {two} of {most}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_collectors_ask_a_slow_api_server_hardly_more_often_than_one() {
    let server = ApiServer::start().await;
    let both = Both::start(&server).await;
    let proxies = || both.one.proxies.iter().chain(&both.two.proxies);
    let lasts = or_long(Duration::from_secs(6), Duration::from_secs(120));
    for leases_too in or_long(&[false][..], &[false, true]) {
        let which = if *leases_too {
            ""
        } else {
            ", Leases are quick"
        };
        proxies().for_each(|proxy| proxy.spare_leases(!leases_too));
        proxies().for_each(|proxy| proxy.delay(Duration::from_secs(5)));
        both.judge(&format!("5 s for a write{which}"), lasts).await;
        proxies().for_each(|proxy| proxy.delay(Duration::ZERO));
        // All writes are done.
        sleep(Duration::from_secs(5)).await;
        proxies().for_each(|proxy| {
            proxy.refuse(Refusal {
                code: 429,
                retry_after: Some(1),
            });
        });
        both.judge(&format!("429 for a write{which}"), lasts).await;
        proxies().for_each(Proxy::pass);
        sleep(or_long(Duration::ZERO, Duration::from_secs(20))).await;
    }
}
