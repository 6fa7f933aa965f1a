//! Flush probes: they flush CoreDNS's buffered events.

use std::fs;

use hickory_proto::rr::RecordType;
use tests::{
    coredns::{CoreDns, free_port},
    store::Store,
    wait::eventually,
    workdir::Workdir,
    world::start_collector,
};

const NAME: &str = "www.example.com.";

const COREFILE: &str = "\
.:{$DNS_PORT} {
    bind 127.0.0.1
    errors
    dnstap unix://{$DNSTAP_SOCKET} full
    cache
    template ANY ANY cluster.local {
        rcode NXDOMAIN
    }
    template IN A example.com {
        answer \"{{ .Name }} 300 IN A 192.0.2.10\"
    }
}
";

#[tokio::test]
async fn streams_are_flushed_before_any_rule_and_after_a_coredns_restart() {
    let (workdir, server) = (Workdir::new(), free_port());
    let store = Store::new(workdir.join("store"));
    let flags = ["--resolver", &server.to_string(), "--flush-probe", "10ms"];
    let collector = start_collector(&workdir, &store, &flags).await;
    collector.ready().await;
    fs::write(workdir.join("Corefile"), COREFILE).unwrap();
    let mut coredns = CoreDns::start_at(workdir.path(), server).await;
    let delay = "egress_collector_flush_delay_seconds_count";
    collector.counts(delay, &[], 50.0).await;

    store.allow("team", &[NAME]);
    // Its answers are streamed as before, without those to the collector's own queries.
    eventually("an answer arrives", async || {
        coredns.ask(NAME, RecordType::A).await;
        let entry = store.resolved(NAME, NAME).ok_or("no entry")?;
        (!entry.resolved_addresses.is_empty())
            .then_some(())
            .ok_or_else(|| format!("{entry:?}"))
    })
    .await;

    coredns.process().kill();
    coredns.restart().await;
    let before = collector.admin().metric(delay, &[]).await.unwrap();
    collector.counts(delay, &[], before + 50.0).await;
}
