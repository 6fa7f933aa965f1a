//! A stock CoreDNS over TLS.

use std::fs;

use tests::{
    coredns::{CoreDns, free_port, write_zone},
    pki::{Authority, Validity},
    programs::Program,
    store::Store,
    wait::eventually,
    workdir::Workdir,
    world::start_collector,
};

const NAME: &str = "www.example.com.";
const ERRORS: &str = "egress_collector_connection_errors_total";

/// Sends queries until the answer is in the status. The collector looks nothing up: all addresses come over dnstap.
async fn expect_flow(coredns: &CoreDns, store: &Store) {
    eventually("an answer arrives", async || {
        coredns.look_up(NAME).await;
        let entry = store.resolved(NAME, NAME).ok_or("there is no entry")?;
        let mut addresses = entry.resolved_addresses.iter();
        let is_known = addresses.any(|address| address.ip == "192.0.2.10");
        is_known.then_some(()).ok_or_else(|| format!("{entry:?}"))
    })
    .await;
}

#[tokio::test]
async fn a_stock_coredns_streams_over_tls_and_renewed_certificates_are_used() {
    let workdir = Workdir::new();
    let store = Store::new(workdir.join("store"));
    store.allow("team", &[NAME]);
    let authority = Authority::new(workdir.path());
    let side = authority.sign("collector", &["127.0.0.1"], Validity::Past);
    let listener = format!("tls://{}", free_port());
    let [certificate, key] = [&side.certificate, &side.key].map(|path| path.to_str().unwrap());
    let flags = [
        "--listen",
        &listener,
        "--certificate",
        certificate,
        "--private-key",
        key,
    ];
    let collector = start_collector(&workdir, &store, &flags).await;
    collector.ready().await;
    let corefile = format!(
        ".:{{$DNS_PORT}} {{\n bind 127.0.0.1\n errors\n dnstap {listener} full\n file example.com.zone example.com\n}}\n"
    );
    fs::write(workdir.join("Corefile"), corefile).unwrap();
    let zone = workdir.join("example.com.zone");
    write_zone(&zone, "example.com.", 1, "www IN A 192.0.2.10");

    // CoreDNS verifies the certificate, and refuses an expired one.
    let coredns = CoreDns::start(workdir.path()).await;
    let refused = async |collector: &Program, least| {
        collector.counts(ERRORS, &["reason=\"tls\""], least).await;
    };
    refused(&collector, 1.0).await;
    let used = async |times| {
        let labels = ["what=\"certificate\"", "outcome=\"used\""];
        collector
            .counts("egress_file_reloads_total", &labels, times)
            .await;
    };
    // It accepts a valid one when it redials.
    authority.sign("collector", &["127.0.0.1"], Validity::Now);
    used(1.0).await;
    expect_flow(&coredns, &store).await;
    collector.ready().await;
}
