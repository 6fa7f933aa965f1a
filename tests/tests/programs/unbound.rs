//! A second, foreign dnstap sender: unbound, whose Frame Streams are those of the `fstrm` library.

use std::{fs, path::Path};

use hickory_proto::rr::RecordType;
use proto::api::Family;
use tests::{
    coredns::free_port,
    dns::ask,
    process::Process,
    wait::eventually,
    world::{Setup, World},
};

#[tokio::test]
async fn the_answers_of_unbound_reach_the_sets() {
    let world = World::start(Setup {
        allow: &["www.unbound.test", "*.unbound.test"],
        ..Setup::default()
    })
    .await;
    let address = free_port();
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
    let args = ["-d", "-c", "unbound.conf"];
    let _unbound = Process::start(
        world.workdir.path(),
        "unbound",
        Path::new("unbound"),
        args,
        &[],
    );
    let look_up = async |name: &str| {
        for kind in [RecordType::A, RecordType::AAAA] {
            eventually("unbound answers", async || {
                ask(address, name, kind)
                    .await
                    .map_err(|error| error.to_string())
            })
            .await;
        }
    };
    // It connects in its own time, and what it answers before is lost.
    eventually("the first answer arrives", async || {
        look_up("www.unbound.test.").await;
        let rows = world.northbound.sets("www.unbound.test.", Family::V4)?;
        let arrived = rows.iter().any(|row| row.addresses.contains("192.0.2.10"));
        arrived.then_some(()).ok_or_else(|| format!("{rows:?}"))
    })
    .await;
    world
        .expect_set("www.unbound.test.", Family::V6, &["2001:db8::10"])
        .await;
    look_up("other.unbound.test.").await;
    world
        .expect_set("*.unbound.test.", Family::V4, &["192.0.2.10", "192.0.2.11"])
        .await;
}
