//! Corefiles from `egress corefile`, in a stock CoreDNS.

mod table;

use std::{fs, path::Path, process::Output};

use hickory_proto::{op::ResponseCode, rr::RecordType};
use proto::api::Family;
use tests::{
    coredns::{CoreDns, free_port},
    dns::ask,
    programs,
    upstream::{Asked, Scripted, Speech},
    workdir::Workdir,
    world::{Setup, World},
};

async fn corefile(args: &[&str]) -> Output {
    programs::run("egress", &[&["corefile"], args].concat()).await
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

async fn made(args: &[&str]) -> String {
    let output = corefile(args).await;
    assert!(
        output.status.success(),
        "{args:?}: {}",
        text(&output.stderr)
    );
    text(&output.stdout)
}

/// An upstream that has this address for every name.
async fn upstream(address: &'static str) -> Scripted {
    Scripted::start(move |asked: &Asked| {
        if asked.is_v4() {
            asked.addresses(&[address], 300).say()
        } else {
            asked.reply(ResponseCode::NoError).say()
        }
    })
    .await
}

fn write(path: &Path, text: &str) -> String {
    fs::write(path, text).unwrap();
    path.display().to_string()
}

#[tokio::test]
async fn a_patched_corefile_is_taken_by_coredns_and_its_answers_are_seen() {
    let (all, corp) = (upstream("192.0.2.1").await, upstream("192.0.2.2").await);
    let mut world = World::start(Setup {
        allow: &["www.example.org", "www.corp.example"],
        ..Setup::default()
    })
    .await;
    let before = format!(
        "(common) {{
    bind 127.0.0.1
    errors # to the log
}}
import servers/*.server
.:{{$DNS_PORT}} {{ # all names
    import common
    forward . {}
}}
cluster.local:{{$DNS_PORT}} {{
    import common
}}
",
        all.address
    );
    fs::create_dir(world.workdir.join("servers")).unwrap();
    let server = format!(
        "corp.example:{{$DNS_PORT}} {{\n    import ../common\n    forward . {}\n}}\n",
        corp.address
    );
    // An imported file is read at its import; a block of its own is patched separately.
    let server = server.replace("import ../common", "bind 127.0.0.1");
    let server_file = write(&world.workdir.join("servers/corp.server"), &server);
    let file = write(&world.workdir.join("Corefile"), &before);
    let socket = world.dnstap_socket().display().to_string();
    let checked = corefile(&["check", &file, "--dnstap", &socket]).await;
    assert_eq!(checked.status.code(), Some(1));
    let found = text(&checked.stdout);
    assert!(
        found.contains(
            "line 6: error: the collector does not receive the answers of `.:{$DNS_PORT}`"
        ),
        "{found}"
    );
    assert!(
        found.contains("line 5: error: `import servers/*.server`"),
        "{found}"
    );
    for file in [&server_file, &file] {
        let after = made(&["patch", file, "--dnstap", &socket]).await;
        fs::write(file, &after).unwrap();
        assert_eq!(made(&["patch", file, "--dnstap", &socket]).await, after);
    }
    let checked = corefile(&["check", &file, "--dnstap", &socket]).await;
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stdout));
    world.coredns.restart().await;
    for (name, address) in [
        ("www.example.org.", "192.0.2.1"),
        ("www.corp.example.", "192.0.2.2"),
    ] {
        world.expect_flow(name, Family::V4, address).await;
    }
    let removed = made(&["patch", &file, "--remove"]).await;
    assert_eq!(removed, before);
}

#[tokio::test]
async fn a_rendered_corefile_is_taken_by_coredns_and_the_longest_zone_wins() {
    let (short, long) = (upstream("192.0.2.1").await, upstream("192.0.2.2").await);
    let servers = format!(
        "spec:
  servers:
  - {{name: short, zones: [foo.example], forwardPlugin: {{upstreams: ['{}'], policy: RoundRobin, protocolStrategy: '', transportConfig: {{}}}}}}
  - {{name: long, zones: [a.foo.example, b.foo.example], forwardPlugin: {{upstreams: ['{}']}}}}
",
        short.address, long.address
    ) + "  - {name: secure, zones: [tls.example], forwardPlugin: {upstreams: ['127.0.0.1:1'], policy: Random,
       transportConfig: {transport: TLS, tls: {serverName: dns.example}}, protocolStrategy: TCP}}
  upstreamResolvers: {upstreams: [{type: SystemResolvConf}, {type: Network, address: 127.0.0.1, port: 1}], policy: Sequential}
";
    let workdir = Workdir::new();
    let file = write(&workdir.join("servers.yaml"), &servers);
    let port = free_port().port().to_string();
    let socket = workdir.join("none.sock").display().to_string();
    let args = [
        "render", &file, "--port", &port, "--dnstap", &socket, "--extra", "secret",
    ];
    let rendered = made(&args).await;
    assert_eq!(rendered.matches("dnstap").count(), 4, "{rendered}");
    // On this machine: no fixed ports, and no cluster.
    let here = rendered
        .replace(&format!(":{port}"), ":{$DNS_PORT}")
        .replace("    errors\n", "    errors\n    bind 127.0.0.1\n")
        .replace("    health\n", "    health 127.0.0.1:0\n")
        .replace("    prometheus :9153\n", "    prometheus 127.0.0.1:0\n");
    fs::write(workdir.join("Corefile"), here).unwrap();
    let coredns = CoreDns::start(workdir.path()).await;
    for (name, address) in [
        ("www.foo.example.", "192.0.2.1"),
        ("www.a.foo.example.", "192.0.2.2"),
        ("b.foo.example.", "192.0.2.2"),
    ] {
        let reply = ask(coredns.address(), name, RecordType::A).await.unwrap();
        assert_eq!(
            reply.addresses(),
            [address.parse::<std::net::IpAddr>().unwrap()],
            "{name}"
        );
    }
    // A flush probe is answered here and reaches no upstream.
    let probe = ask(coredns.address(), "flush.cluster.local.", RecordType::A);
    assert_eq!(
        probe.await.unwrap().message.metadata.response_code,
        ResponseCode::NXDomain
    );
    let file = write(
        &workdir.join("bad.yaml"),
        "servers: [{name: '', zones: [], forwardPlugin: {upstreams: []}}]",
    );
    let refused = corefile(&["render", &file]).await;
    assert_eq!(refused.status.code(), Some(2));
}
