//! A CoreDNS whose streams the collector refuses, after it had one.

use std::{fs, time::Duration};

use hickory_proto::rr::RecordType;
use tests::{
    admin::get_over_unix,
    coredns::{CoreDns, free_port},
    dns::ask,
    soak,
    store::Store,
    workdir::Workdir,
    world::start_collector,
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_coredns_is_named_and_gets_few_log_lines() {
    let workdir = Workdir::new();
    let store = Store::new(workdir.join("store"));
    store.allow("team", &["*.up.test"]);
    let (listener, inspect) = (free_port(), workdir.join("inspect.sock"));
    let address = format!("tcp://{listener}");
    let shown = format!("unix://{}", inspect.display());
    let flags = |peers| {
        [
            "--listen",
            &address,
            "--inspect",
            &shown,
            "--allow-peer",
            peers,
        ]
    };
    let mut collector = start_collector(&workdir, &store, &flags("127.0.0.0/8")).await;
    collector.ready().await;
    let corefile = format!(
        ".:{{$DNS_PORT}} {{\n    bind 127.0.0.1\n    dnstap tcp://{listener} full\n    \
        template IN A {{\n        answer \"{{{{ .Name }}}} 5 IN A 192.0.2.1\"\n    }}\n}}\n"
    );
    fs::write(workdir.join("Corefile"), corefile).unwrap();
    let coredns = CoreDns::start(workdir.path()).await;

    let server = coredns.address();
    ask(server, "www.up.test.", RecordType::A).await.unwrap();
    let events = "egress_collector_events_total";
    collector
        .counts(events, &["outcome=\"observed\""], 1.0)
        .await;
    collector.process().terminate().await;
    let collector = start_collector(&workdir, &store, &flags("192.0.2.0/24")).await;
    collector.ready().await;
    let (before, began) = (collector.messages().len(), Instant::now());
    // Up to 1.13.1, a failed handshake is tried again only after a second without events.
    // So the load begins when the second collector is there.
    let mut clients = JoinSet::new();
    for _ in 0..8 {
        clients.spawn(async move {
            loop {
                // A lost datagram is no matter here.
                let _ = ask(server, "www.up.test.", RecordType::A).await;
            }
        });
    }
    let errors = "egress_collector_connection_errors_total";
    let refused = ["reason=\"unknown_peer\""];
    collector.counts(errors, &refused, 1.0).await;
    let rest = Duration::from_secs(soak::or_long(5, 30)).saturating_sub(began.elapsed());
    sleep(rest).await;
    let lines = collector.messages().len() - before;
    let most = 5 * (began.elapsed().as_secs() + 2);
    assert!(lines as u64 <= most, "{lines} lines");
    let opened = collector.admin().metric(errors, &refused).await.unwrap();
    println!("{opened} refused connections, {lines} log lines");
    // It depends on the version.
    if opened > 2.0 * most as f64 + 50.0 {
        let excess = "egress_collector_excess_connections_total";
        collector.counts(excess, &[], 1.0).await;
        let (_, body) = get_over_unix(&inspect, "/status.json").await.unwrap();
        assert!(body.contains("\"peer\":\"127.0.0.1\""), "{body}");
    }
}
