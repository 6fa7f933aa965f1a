//! The start of the programs, and their errors when they cannot start.

use std::{
    fs,
    os::unix::{fs::PermissionsExt, net::UnixListener},
    process::Output,
};

use tests::{
    dnstap::Sender,
    northbound::Northbound,
    programs::run,
    store::Store,
    wait::eventually,
    workdir::Workdir,
    world::{start_collector, start_ovn_writer},
};

/// Checks the exit status, and a single line that names the cause.
fn assert_refusal(output: &Output, status: i32, words: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{stderr}");
    assert!(stderr.contains(words), "{words:?} is missing in: {stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
}

#[tokio::test]
async fn an_unusable_flag_is_a_usage_error() {
    let workdir = Workdir::new();
    let store = Store::new(workdir.join("store")).address();
    let collector = ["--store", &store, "--listen", "tcp://127.0.0.1:0"];
    let writer = ["--store", &store, "--nb", "unix:/nowhere"];
    let long = format!("unix:///{}", "x".repeat(200));
    let long_remote = long.replacen("//", "", 1);
    for (name, usual, more, words) in [
        (
            "collector",
            &collector,
            &["--min-ttl", "soon"][..],
            "--min-ttl",
        ),
        (
            "collector",
            &collector,
            &["--listen", "udp://127.0.0.1:1"],
            "--listen",
        ),
        (
            "collector",
            &collector,
            &["--no-such-flag"],
            "--no-such-flag",
        ),
        (
            "collector",
            &collector,
            &["--admin", "everywhere"],
            "--admin",
        ),
        (
            "collector",
            &collector,
            &["--inspect", "tcp://0.0.0.0:0"],
            "loopback",
        ),
        ("collector", &collector, &["--listen", &long], "107 bytes"),
        ("collector", &collector, &["--inspect", &long], "107 bytes"),
        (
            "collector",
            &["--store", "kube", "--listen", "tcp://127.0.0.1:0"],
            &[],
            "kube",
        ),
        (
            "collector",
            &["--store", "tape:1", "--listen", "tcp://127.0.0.1:0"],
            &[],
            "--store",
        ),
        ("ovn-writer", &writer, &["--no-such-flag"], "--no-such-flag"),
        (
            "ovn-writer",
            &["--store", "kube", "--nb", "unix:/nowhere"],
            &[],
            "kube",
        ),
        (
            "ovn-writer",
            &["--store", &store, "--nb", "ssl:127.0.0.1:6641"],
            &[],
            "ssl",
        ),
        (
            "ovn-writer",
            &["--store", &store, "--nb", &long_remote],
            &[],
            "107 bytes",
        ),
        (
            "ovn-writer",
            &["--store", &store, "--nb", "nonsense"],
            &[],
            "--nb",
        ),
    ] {
        let args = [&usual[..], more].concat();
        assert_refusal(&run(name, &args).await, 2, words);
    }
    for name in ["collector", "ovn-writer"] {
        assert_refusal(&run(name, &[]).await, 2, "--store");
    }
}

#[tokio::test]
async fn a_missing_folder_is_one_clear_line() {
    let workdir = Workdir::new();
    let missing = workdir.join("missing");
    let store = format!("dir:{}", missing.display());
    for (name, flag, value) in [
        ("collector", "--listen", "tcp://127.0.0.1:0"),
        ("ovn-writer", "--nb", "unix:/nowhere"),
    ] {
        let output = run(
            name,
            &["--store", &store, "--admin", "127.0.0.1:0", flag, value],
        )
        .await;
        assert_refusal(&output, 1, missing.to_str().unwrap());
        assert!(!missing.exists(), "it was made");
    }
    let store = Store::new(workdir.join("store")).address();
    let socket = format!("unix://{}", missing.join("x.sock").display());
    let output = run(
        "collector",
        &[
            "--store",
            &store,
            "--admin",
            "127.0.0.1:0",
            "--listen",
            &socket,
        ],
    )
    .await;
    assert_refusal(&output, 1, &socket);
}

#[tokio::test]
async fn a_stale_socket_file_is_replaced_and_has_a_user_and_a_group_mode() {
    let workdir = Workdir::new();
    let store = Store::new(workdir.join("store"));
    let socket = workdir.join("dnstap.sock");
    drop(UnixListener::bind(&socket).unwrap());
    let _collector = start_collector(&workdir, &store, &[]).await;
    let _sender = eventually("the collector listens", async || {
        std::os::unix::net::UnixStream::connect(&socket).map_err(|error| error.to_string())
    })
    .await;
    Sender::open(&socket).await;
    let mode = fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660, "{mode:o}");
}

#[tokio::test]
async fn the_northbound_database_may_come_later_and_readyz_says_what_is_awaited() {
    let workdir = Workdir::new();
    let store = Store::new(workdir.join("store"));
    let writer = start_ovn_writer(&workdir, &store).await;
    let words = eventually("/readyz says why", async || {
        match writer.admin().get("/readyz").await {
            Ok((503, body)) if body.contains("nb.sock") => Ok(body),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert!(words.contains("not ready"), "{words}");
    assert_eq!(writer.admin().get("/livez").await.unwrap().0, 200);
    let _northbound = Northbound::start(workdir.path()).await;
    writer.ready().await;
}
