//! Corefiles from `egress corefile`, in a stock CoreDNS.

mod table;

use std::{fs, path::Path, process::Output};

use hickory_proto::op::ResponseCode;
use proto::api::Family;
use tests::{
    programs,
    upstream::{Asked, Scripted, Speech},
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
