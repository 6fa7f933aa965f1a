//! The allowed peers of the collector, by transport.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr},
    path::Path,
};

use tests::{
    coredns::{CoreDns, free_port, write_zone},
    dnstap::{Sender, data, event, response},
    pki::{Authority, Validity},
    programs::Program,
    store::Store,
    wait::eventually,
    workdir::Workdir,
    world::start_collector,
};

const NAME: &str = "www.example.com.";
const ERRORS: &str = "egress_collector_connection_errors_total";
const EVENTS: &str = "egress_collector_events_total";

/// Without an upstream, and without look-ups of the collector: all addresses come over dnstap.
fn write_corefile(folder: &Path, dnstap: &str, bind: IpAddr) {
    let corefile = format!(
        ".:{{$DNS_PORT}} {{\n bind {bind}\n errors\n dnstap {dnstap}\n file example.com.zone example.com\n}}\n"
    );
    fs::write(folder.join("Corefile"), corefile).unwrap();
    let zone = folder.join("example.com.zone");
    write_zone(&zone, "example.com.", 1, "www IN A 192.0.2.10");
}

/// A store with a rule for the name.
fn wanting(workdir: &Workdir) -> Store {
    let store = Store::new(workdir.join("store"));
    store.allow("team", &[NAME]);
    store
}

/// Sends queries until the answer is in the status.
async fn expect_flow(coredns: &CoreDns, store: &Store) {
    eventually("an answer arrives", async || {
        coredns.look_up(NAME).await;
        expect_known(store, "192.0.2.10")
    })
    .await;
}

fn expect_known(store: &Store, address: &str) -> Result<(), String> {
    let entry = store.resolved(NAME, NAME).ok_or("there is no entry")?;
    let known = entry.resolved_addresses.iter().any(|a| a.ip == address);
    known.then_some(()).ok_or_else(|| format!("{entry:?}"))
}

fn expect_unknown(store: &Store, address: &str) {
    assert!(expect_known(store, address).is_err(), "{address}");
}

fn frame(address: [u8; 4]) -> Vec<u8> {
    data(&event(response(NAME, Ipv4Addr::from(address))))
}

async fn refused(collector: &Program, reason: &str, least: f64) {
    let label = format!("reason=\"{reason}\"");
    collector.counts(ERRORS, &[&label], least).await;
}

#[tokio::test]
async fn a_stock_coredns_streams_over_tls_and_renewed_certificates_are_used() {
    let workdir = Workdir::new();
    let store = wanting(&workdir);
    let other = workdir.join("other");
    fs::create_dir(&other).unwrap();
    let other = Authority::new(&other);
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
    let dnstap = format!("{listener} full");
    write_corefile(workdir.path(), &dnstap, Ipv4Addr::LOCALHOST.into());

    // CoreDNS verifies the certificate, and refuses an expired one.
    let mut coredns = CoreDns::start(workdir.path()).await;
    refused(&collector, "tls", 1.0).await;
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
    // It refuses one of another authority. The existing stream continues.
    let foreign = other.sign("collector", &["127.0.0.1"], Validity::Now);
    let before = collector.admin().metric(ERRORS, &[]).await.unwrap();
    fs::copy(&foreign.key, &side.key).unwrap();
    fs::copy(&foreign.certificate, &side.certificate).unwrap();
    used(2.0).await;
    coredns.restart().await;
    refused(&collector, "tls", before + 1.0).await;
    // A key without its certificate is not used.
    authority.sign("collector", &["127.0.0.1"], Validity::Now);
    used(3.0).await;
    fs::copy(&foreign.key, &side.key).unwrap();
    let labels = ["what=\"certificate\"", "outcome=\"refused\""];
    collector
        .counts("egress_file_reloads_total", &labels, 1.0)
        .await;
    coredns.restart().await;
    expect_flow(&coredns, &store).await;
    collector.ready().await;
}

#[tokio::test]
async fn events_of_a_stock_coredns_show_the_secret_of_its_corefile() {
    let (old, new) = ("old-secret-0123456789", "new_secret_0123456789");
    let workdir = Workdir::new();
    let store = wanting(&workdir);
    let file = workdir.join("secret");
    fs::write(&file, format!("{new}\n")).unwrap();
    let flags = ["--secret-file", file.to_str().unwrap()];
    let collector = start_collector(&workdir, &store, &flags).await;
    collector.ready().await;
    let corefile = |secret: &str| {
        let dnstap = format!("unix://{{$DNSTAP_SOCKET}} full {{\n  extra {secret}\n }}");
        write_corefile(workdir.path(), &dnstap, Ipv4Addr::LOCALHOST.into());
    };
    corefile(old);
    let mut coredns = CoreDns::start(workdir.path()).await;
    coredns.look_up(NAME).await;
    let wrong = ["outcome=\"wrong_secret\""];
    collector.counts(EVENTS, &wrong, 1.0).await;
    expect_unknown(&store, "192.0.2.10");
    // During a rotation both secrets count.
    fs::write(&file, format!("{new}\n{old}\n")).unwrap();
    expect_flow(&coredns, &store).await;
    fs::write(&file, format!("{new}\n")).unwrap();
    let labels = ["what=\"secret\"", "outcome=\"used\""];
    collector
        .counts("egress_file_reloads_total", &labels, 2.0)
        .await;
    let before = collector.admin().metric(EVENTS, &wrong).await.unwrap();
    coredns.look_up(NAME).await;
    collector.counts(EVENTS, &wrong, before + 1.0).await;
    corefile(new);
    let observed = ["outcome=\"observed\""];
    let before = collector.admin().metric(EVENTS, &observed).await.unwrap();
    coredns.restart().await;
    coredns.look_up(NAME).await;
    collector.counts(EVENTS, &observed, before + 1.0).await;
    // An invalid file leaves the last valid secret.
    fs::write(&file, "short").unwrap();
    let labels = ["what=\"secret\"", "outcome=\"refused\""];
    collector
        .counts("egress_file_reloads_total", &labels, 1.0)
        .await;
    coredns.look_up(NAME).await;
    collector.counts(EVENTS, &observed, before + 2.0).await;
    for text in [old, new, "short"] {
        let told = collector
            .messages()
            .iter()
            .any(|m| m.to_string().contains(text));
        assert!(!told, "a secret is in the log");
    }
}

#[tokio::test]
async fn over_tcp_only_allowed_addresses_may_speak() {
    let workdir = Workdir::new();
    let store = wanting(&workdir);
    let listener = free_port();
    let flags = [
        "--listen",
        &format!("tcp://{listener}"),
        "--allow-peer",
        "127.0.0.2/32",
    ];
    let collector = start_collector(&workdir, &store, &flags).await;
    collector.ready().await;
    let from = |last| IpAddr::from([127, 0, 0, last]);
    let mut stranger = Sender::connect_from(from(3), listener).await;
    assert_eq!(stranger.closed().await, b"", "nothing is accepted");
    refused(&collector, "unknown_peer", 1.0).await;
    let mut friend = Sender::connect_from(from(2), listener).await;
    friend.handshake().await;
    friend.send(&frame([203, 0, 113, 1])).await.unwrap();
    eventually("it counts", async || expect_known(&store, "203.0.113.1")).await;
}

#[tokio::test]
async fn a_sender_that_never_reads_is_read() {
    let workdir = Workdir::new();
    let store = wanting(&workdir);
    let collector = start_collector(&workdir, &store, &[]).await;
    collector.ready().await;
    let mut sender = Sender::connect(&workdir.join("dnstap.sock")).await;
    let handshake = [
        tests::dnstap::control(tests::dnstap::Control::Ready, Some(tests::dnstap::DNSTAP)),
        tests::dnstap::control(tests::dnstap::Control::Start, Some(tests::dnstap::DNSTAP)),
    ];
    sender.send(&handshake.concat()).await.unwrap();
    for i in 0..10_000 {
        let last = u8::try_from(i % 200).unwrap() + 1;
        sender.send(&frame([203, 0, 113, last])).await.unwrap();
    }
    eventually("all count", async || {
        let count = collector.admin().metric(EVENTS, &[]).await;
        let count = count.map_err(|error| error.to_string())?;
        (count >= 10_000.0)
            .then_some(())
            .ok_or_else(|| count.to_string())
    })
    .await;
    eventually("it counts", async || expect_known(&store, "203.0.113.200")).await;
}
