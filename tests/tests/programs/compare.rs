//! The ovn-writer's reports without writes: `verify` and `--dry-run`.

use std::{
    fs,
    process::{Output, Stdio},
    time::Duration,
};

use proto::api::Family;
use serde_json::Value;
use tests::{
    programs::{Program, program, run},
    wait::eventually,
    world::{Setup, World},
};
use tokio::{process::Command, time::timeout};

const NAME: &str = "www.example.com.";

async fn world() -> World {
    let world = World::start(Setup {
        zone: "www IN A 192.0.2.10\nwww IN AAAA 2001:db8::10\n",
        allow: &[NAME],
        ..Setup::default()
    })
    .await;
    world.look_up(NAME).await;
    world.expect_set(NAME, Family::V4, &["192.0.2.10"]).await;
    world.expect_set(NAME, Family::V6, &["2001:db8::10"]).await;
    world
}

/// An ovn-writer that writes nothing.
async fn dry_run(world: &World) -> Program {
    let (store, nb) = (world.store.address(), world.northbound.remote());
    let inspect = "--inspect=tcp://127.0.0.1:0";
    let args = ["--store", &store, "--nb", &nb, "--dry-run", inspect].map(str::to_owned);
    let program = Program::start(world.workdir.path(), "ovn-writer", args.to_vec()).await;
    program.ready().await;
    program
}

/// Where a program serves its facts.
fn inspect(program: &Program) -> String {
    let messages = program.messages();
    let mut messages = messages.iter();
    let listening = messages.find(|it| it["message"] == "inspect listening");
    listening.unwrap()["addr"].as_str().unwrap().to_owned()
}

/// The output and exit status of `verify`.
async fn verify(writer: &Program) -> (Option<i32>, Value) {
    let output = run(
        "egress",
        &["verify", "--ovn-writer", &inspect(writer), "-o", "json"],
    )
    .await;
    let said: Result<Value, _> = serde_json::from_slice(&output.stdout);
    let mut said = said.unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (output.status.code(), said["ovnWriters"][0]["answer"].take())
}

fn spoil(world: &World) {
    let set = world.northbound.sets(NAME, Family::V4).unwrap().remove(0);
    let args = [
        "set",
        "Address_Set",
        &set.uuid,
        "addresses=192.0.2.66,192.0.2.67",
    ];
    world.northbound.nbctl(&args).unwrap();
    let set = world.northbound.sets(NAME, Family::V6).unwrap().remove(0);
    world
        .northbound
        .nbctl(&["destroy", "Address_Set", &set.uuid])
        .unwrap();
}

#[tokio::test]
async fn verify_exits_by_what_it_finds_and_the_metrics_say_the_same() {
    let mut world = world().await;
    let (status, said) = verify(&world.ovn_writer).await;
    assert_eq!(
        (status, &said["differences"]),
        (Some(0), &serde_json::json!([])),
        "{said}"
    );

    world.ovn_writer.process().kill();
    spoil(&world);
    let mut dry = dry_run(&world).await;
    let (status, said) = verify(&dry).await;
    assert_eq!(status, Some(1), "{said}");
    let kinds = [
        ("missing_row", 1),
        ("name_clash", 0),
        ("missing_address", 2),
        ("surplus_address", 2),
        ("unwanted_row", 0),
    ];
    for (kind, count) in kinds {
        assert_eq!(said["counts"][kind], count, "{said}");
    }
    assert_eq!(said["differences"][0]["name"], NAME);
    for (kind, count) in kinds {
        let label = format!("kind=\"{kind}\"");
        eventually("the metrics say the same", async || {
            let metric = dry
                .admin()
                .metric("egress_ovn_writer_differences", &[&label])
                .await;
            let found = metric.map_err(|error| error.to_string())?;
            (found == f64::from(count))
                .then_some(())
                .ok_or(format!("{kind}: {found}"))
        })
        .await;
    }
    let log = dry.process().log();
    let said = format!(
        "no rule:\n  {NAME} a4029995183407368296 v4 of default-network-controller: +192.0.2.10 -192.0.2.66 -192.0.2.67\n"
    );
    assert!(log.contains(&said), "{log}");
    assert_eq!(dry.process().terminate().await.code(), Some(0));

    world.ovn_writer.restart().await;
    world.expect_set(NAME, Family::V4, &["192.0.2.10"]).await;
    world.ovn_writer.ready().await;
    assert_eq!(verify(&world.ovn_writer).await.0, Some(0));
}

#[tokio::test]
async fn a_set_that_cannot_be_made_is_counted_alike_everywhere() {
    let mut world = world().await;
    world.ovn_writer.process().kill();
    let set = world.northbound.sets(NAME, Family::V4).unwrap().remove(0);
    let column = format!("name={}", set.name);
    for args in [
        &["destroy", "Address_Set", &set.uuid][..],
        &["create", "Address_Set", &column],
    ] {
        world.northbound.nbctl(args).unwrap();
    }
    let mut dry = dry_run(&world).await;
    let (status, said) = verify(&dry).await;
    assert_eq!(status, Some(1), "{said}");
    assert_eq!(said["counts"]["name_clash"], 1, "{said}");
    assert_eq!(said["counts"]["missing_row"], 0, "{said}");
    dry.process().kill();
    world.ovn_writer.restart().await;
    for (metric, labels, count) in [
        ("egress_ovn_writer_name_clashes", &[][..], 1.0),
        (
            "egress_ovn_writer_differences",
            &["kind=\"name_clash\""],
            1.0,
        ),
        (
            "egress_ovn_writer_differences",
            &["kind=\"missing_row\""],
            0.0,
        ),
        (
            "egress_ovn_writer_differences",
            &["kind=\"missing_address\""],
            0.0,
        ),
    ] {
        eventually("the metrics say the same", async || {
            let found = world.ovn_writer.admin().metric(metric, labels).await;
            let found = found.map_err(|error| error.to_string())?;
            (found == count)
                .then_some(())
                .ok_or(format!("{metric} {labels:?}: {found}"))
        })
        .await;
    }
}

/// Runs `egress` with this stdout.
async fn run_into(stdout: Stdio, args: &[&str]) -> Output {
    let child = Command::new(program("egress"))
        .args(args)
        .stdout(stdout)
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let ended = timeout(Duration::from_secs(30), child.wait_with_output());
    ended.await.expect("it ends").unwrap()
}

#[tokio::test]
async fn a_reader_that_has_enough_does_not_change_what_verify_found() {
    let mut world = world().await;
    world.ovn_writer.process().kill();
    let dry = dry_run(&world).await;
    let inspect = inspect(&dry);
    for expected in [0, 1] {
        if expected == 1 {
            spoil(&world);
            eventually("it differs", async || {
                let (status, said) = verify(&dry).await;
                (status == Some(1)).then_some(()).ok_or(said.to_string())
            })
            .await;
        }
        for format in ["text", "json"] {
            // The reader is closed from the start.
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            let args = ["verify", "--ovn-writer", &inspect, "-o", format];
            let output = run_into(writer.into(), &args).await;
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(expected), "{stderr}");
            assert!(!stderr.contains("stdout"), "{stderr}");
        }
    }
    // If the output fails, the exit status must not pretend a result.
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = run_into(full.into(), &["verify", "--ovn-writer", &inspect]).await;
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("cannot write to stdout"), "{stderr}");
    // The URL of another program is refused by name.
    let output = run("egress", &["explain", NAME, "--collector", &inspect]).await;
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(2), "{stdout}");
    assert!(
        stdout.contains("it is no collector, but the ovn-writer"),
        "{stdout}"
    );
}

#[tokio::test]
async fn an_ovn_writer_that_stands_by_takes_over_from_one_that_is_killed() {
    let mut world = world().await;
    world.ovn_writer.process().kill();
    let (store, nb) = (world.store.address(), world.northbound.remote());
    let args = ["--store", &store, "--nb", &nb, "--leader-elect"]
        .map(str::to_owned)
        .to_vec();
    let mut first = Program::start(world.workdir.path(), "ovn-writer", args.clone()).await;
    first.counts("egress_replica_leading", &[], 1.0).await;
    let mut second = Program::start(world.workdir.path(), "ovn-writer", args).await;
    second.ready().await;
    assert_eq!(
        second
            .admin()
            .metric("egress_replica_leading", &[])
            .await
            .unwrap(),
        0.0
    );
    spoil(&world);
    world.expect_set(NAME, Family::V4, &["192.0.2.10"]).await;
    let changed = second
        .admin()
        .metric("egress_ovn_writer_transactions_total", &[])
        .await;
    assert_eq!(changed.unwrap(), 0.0, "who stands by writes nothing");
    first.process().kill();
    spoil(&world);
    world.expect_set(NAME, Family::V4, &["192.0.2.10"]).await;
    world.expect_set(NAME, Family::V6, &["2001:db8::10"]).await;
    assert_eq!(second.process().terminate().await.code(), Some(0));
}
