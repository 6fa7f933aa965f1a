//! The ovn-writer's reports without writes: `verify` and `--dry-run`.

use proto::api::Family;
use serde_json::Value;
use tests::{
    programs::{Program, run},
    wait::eventually,
    world::{Setup, World},
};

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
async fn url_of_another_program_is_refused_by_name() {
    let world = world().await;
    let inspect = inspect(&world.ovn_writer);
    let output = run("egress", &["explain", NAME, "--collector", &inspect]).await;
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(2), "{stdout}");
    assert!(
        stdout.contains("it is no collector, but the ovn-writer"),
        "{stdout}"
    );
}
