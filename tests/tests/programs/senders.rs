//! Foreign dnstap senders that use the `fstrm` library: unbound, BIND, dnsdist and `fstrm_replay`. Also
//! `fstrm_capture`, as a second reader.

use std::{fs, net::SocketAddr, os::unix::net::UnixStream, path::Path, time::Instant};

use hickory_proto::rr::RecordType;
use proto::api::Family;
use rustix::process::Signal;
use tests::{
    coredns::{self, CoreDns, free_port},
    dns::ask,
    dnstap::{Sender, data},
    process::Process,
    store::Store,
    wait::eventually,
    workdir::Workdir,
    world::{Setup, World, start_collector},
};

const DNSTAP: &str = "protobuf:dnstap.Dnstap";

/// A world with rules for the names of a foreign server, and the address for that server.
async fn world(domain: &str) -> (World, SocketAddr) {
    let world = World::start(Setup {
        allow: &[&format!("www.{domain}"), &format!("*.{domain}")],
        ..Setup::default()
    })
    .await;
    (world, free_port())
}

fn start(world: &World, program: &str, args: &[&str]) -> Process {
    let path = Path::new(program);
    Process::start(world.workdir.path(), program, path, args, &[])
}

async fn look_up(server: SocketAddr, name: &str) {
    for kind in [RecordType::A, RecordType::AAAA] {
        eventually("the foreign server answers", async || {
            let reply = ask(server, name, kind).await;
            reply.map_err(|error| error.to_string())
        })
        .await;
    }
}

/// Waits until the collector has the answers of the server. It has 192.0.2.10 and 2001:db8::10 for `www`, and
/// 192.0.2.11 for `other`.
async fn expect_read(world: &World, server: SocketAddr, domain: &str) {
    let (www, other) = (format!("www.{domain}."), format!("other.{domain}."));
    // It connects at a time of its own choice, and earlier answers are lost.
    eventually("the first answer arrives", async || {
        look_up(server, &www).await;
        let rows = world.northbound.sets(&www, Family::V4)?;
        let arrived = rows.iter().any(|row| row.addresses.contains("192.0.2.10"));
        arrived.then_some(()).ok_or_else(|| format!("{rows:?}"))
    })
    .await;
    world.expect_set(&www, Family::V6, &["2001:db8::10"]).await;
    look_up(server, &other).await;
    let all = ["192.0.2.10", "192.0.2.11"];
    world
        .expect_set(&format!("*.{domain}."), Family::V4, &all)
        .await;
}

#[tokio::test]
async fn the_answers_of_unbound_reach_the_sets() {
    let (world, address) = world("unbound.test").await;
    let configuration = format!(
        r#"
server:
    interface: {ip}@{port}
    do-daemonize: no
    chroot: ""
    username: ""
    directory: "{folder}"
    pidfile: ""
    use-syslog: no
    module-config: "iterator"
    local-zone: "unbound.test." static
    local-data: "www.unbound.test. 300 IN A 192.0.2.10"
    local-data: "www.unbound.test. 300 IN AAAA 2001:db8::10"
    local-data: "other.unbound.test. 300 IN A 192.0.2.11"
dnstap:
    dnstap-enable: yes
    dnstap-socket-path: "{socket}"
    dnstap-bidirectional: yes
    dnstap-log-client-response-messages: yes
remote-control:
    control-enable: no
"#,
        ip = address.ip(),
        port = address.port(),
        folder = world.workdir.path().display(),
        socket = world.dnstap_socket().display(),
    );
    fs::write(world.workdir.join("unbound.conf"), configuration).unwrap();
    let _unbound = start(&world, "unbound", &["-d", "-c", "unbound.conf"]);
    expect_read(&world, address, "unbound.test").await;
}

#[tokio::test]
async fn the_answers_of_bind_reach_the_sets() {
    let (world, address) = world("bind.test").await;
    let configuration = format!(
        r#"
options {{
    directory "{folder}";
    pid-file none;
    session-keyfile none;
    managed-keys-directory "{folder}";
    listen-on port {port} {{ {ip}; }};
    listen-on-v6 {{ none; }};
    recursion yes;
    dnssec-validation no;
    empty-zones-enable no;
    dnstap {{ client response; }};
    dnstap-output unix "{socket}";
}};
controls {{ }};
zone "bind.test" {{ type primary; file "bind.test.zone"; }};
"#,
        ip = address.ip(),
        port = address.port(),
        folder = world.workdir.path().display(),
        socket = world.dnstap_socket().display(),
    );
    fs::write(world.workdir.join("named.conf"), configuration).unwrap();
    let records = "www IN A 192.0.2.10\nwww IN AAAA 2001:db8::10\nother IN A 192.0.2.11";
    coredns::write_zone(
        &world.workdir.join("bind.test.zone"),
        "bind.test.",
        1,
        records,
    );
    let _named = start(&world, "named", &["-g", "-c", "named.conf"]);
    expect_read(&world, address, "bind.test").await;
}

#[tokio::test]
async fn the_answers_of_dnsdist_reach_the_sets() {
    let (world, address) = world("dnsdist.test").await;
    let configuration = format!(
        r#"
setLocal("{address}")
addAction(AndRule({{QNameRule("www.dnsdist.test."), QTypeRule(DNSQType.A)}}), SpoofAction({{"192.0.2.10"}}))
addAction(AndRule({{QNameRule("www.dnsdist.test."), QTypeRule(DNSQType.AAAA)}}), SpoofAction({{"2001:db8::10"}}))
addAction(AndRule({{QNameRule("other.dnsdist.test."), QTypeRule(DNSQType.A)}}), SpoofAction({{"192.0.2.11"}}))
addAction(AllRule(), RCodeAction(DNSRCode.NXDOMAIN))
logger = newFrameStreamUnixLogger("{socket}")
addSelfAnsweredResponseAction(AllRule(), DnstapLogResponseAction("dnsdist", logger))
"#,
        socket = world.dnstap_socket().display(),
    );
    fs::write(world.workdir.join("dnsdist.conf"), configuration).unwrap();
    let args = ["--supervised", "--disable-syslog", "-C", "dnsdist.conf"];
    let _dnsdist = start(&world, "dnsdist", &args);
    expect_read(&world, address, "dnsdist.test").await;
}

#[tokio::test]
async fn fstrm_replay_sends_what_fstrm_capture_wrote() {
    let source = Workdir::new();
    coredns::write_zone(
        &source.join("x.zone"),
        "fstrm.test.",
        1,
        "www IN A 192.0.2.10",
    );
    let corefile = ".:{$DNS_PORT} {\n bind 127.0.0.1\n dnstap unix://{$DNSTAP_SOCKET} full\n file x.zone fstrm.test\n}\n";
    fs::write(source.join("Corefile"), corefile).unwrap();
    let args = ["-t", DNSTAP, "-u", "dnstap.sock", "-w", "events.fstrm"];
    let path = Path::new("fstrm_capture");
    let mut capture = Process::start(source.path(), "fstrm_capture", path, args, &[]);
    eventually("fstrm_capture listens", async || {
        UnixStream::connect(source.join("dnstap.sock")).map_err(|error| error.to_string())
    })
    .await;
    let mut coredns = CoreDns::start(source.path()).await;
    // CoreDNS sends once a second, and ends without sending its buffer.
    eventually("fstrm_capture has the answer", async || {
        coredns.look_up("www.fstrm.test.").await;
        capture.signal(Signal::HUP);
        let bytes = fs::read(source.join("events.fstrm")).map_err(|error| error.to_string())?;
        let there = bytes.windows(4).any(|window| window == [192, 0, 2, 10]);
        there
            .then_some(())
            .ok_or_else(|| format!("{} bytes without it", bytes.len()))
    })
    .await;
    for process in [coredns.process(), &mut capture] {
        process.terminate().await;
    }
    let file = source.join("events.fstrm").display().to_string();

    let (world, _) = self::world("fstrm.test").await;
    let socket = world.dnstap_socket().display().to_string();
    let mut replay = start(
        &world,
        "fstrm_replay",
        &["-t", DNSTAP, "-u", &socket, "-r", &file],
    );
    let status = replay.wait().await;
    assert!(status.success(), "{status}");
    world
        .expect_set("www.fstrm.test.", Family::V4, &["192.0.2.10"])
        .await;
}

#[tokio::test]
async fn a_sender_that_redials_without_a_pause_causes_few_log_lines() {
    let workdir = Workdir::new();
    let store = Store::new(workdir.join("store"));
    let collector = start_collector(&workdir, &store, &[]).await;
    collector.ready().await;
    let (before, began) = (collector.messages().len(), Instant::now());
    for _ in 0..400 {
        let mut sender = Sender::open(&workdir.join("dnstap.sock")).await;
        // A CLIENT_RESPONSE without a DNS message, no dnstap, and a frame that ends too early.
        let bytes = [
            data(&[0x72, 2, 8, 6, 0x78, 1]),
            data(&[0xff]),
            vec![0, 0, 1],
        ];
        let bytes = bytes.concat();
        sender.send(&bytes).await.unwrap();
    }
    let accepted = "egress_collector_connections_accepted_total";
    collector.counts(accepted, &[], 400.0).await;
    let truncated = ["reason=\"truncated\""];
    let errors = "egress_collector_connection_errors_total";
    collector.counts(errors, &truncated, 400.0).await;
    let lines = collector.messages().len() - before;
    let most = 5 * (began.elapsed().as_secs() + 2);
    assert!(lines as u64 <= most, "{lines} lines");
}
