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

/// The output and exit status of `verify`.
async fn verify(world: &World) -> (Option<i32>, Value) {
    let (store, nb) = (world.store.address(), world.northbound.remote());
    let args = ["verify", "--store", &store, "--nb", &nb, "-o", "json"];
    let output = run("egress", &args).await;
    let said = serde_json::from_slice(&output.stdout);
    let said = said.unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (output.status.code(), said)
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
    let (status, said) = verify(&world).await;
    assert_eq!(
        (status, &said["names"]),
        (Some(0), &serde_json::json!([])),
        "{said}"
    );

    world.ovn_writer.process().kill();
    spoil(&world);
    let (status, said) = verify(&world).await;
    assert_eq!(status, Some(1), "{said}");
    let kinds = [
        ("missing_row", 1),
        ("name_clash", 0),
        ("missing_address", 2),
        ("surplus_address", 2),
        ("unwanted_row", 0),
    ];
    for (kind, count) in kinds {
        assert_eq!(said["differences"][kind], count, "{said}");
    }
    assert_eq!(said["names"][0]["name"], NAME);

    // This does not write either.
    let (store, nb) = (world.store.address(), world.northbound.remote());
    let args = ["--store", &store, "--nb", &nb, "--dry-run"].map(str::to_owned);
    let mut dry = Program::start(world.workdir.path(), "ovn-writer", args.to_vec()).await;
    dry.ready().await;
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
        "{NAME}\n  a4029995183407368296 v4 of default-network-controller: +192.0.2.10 -192.0.2.66 -192.0.2.67\n"
    );
    assert!(log.contains(&said), "{log}");
    assert_eq!(verify(&world).await.0, Some(1));
    assert_eq!(dry.process().terminate().await.code(), Some(0));

    world.ovn_writer.restart().await;
    world.expect_set(NAME, Family::V4, &["192.0.2.10"]).await;
    world.ovn_writer.ready().await;
    assert_eq!(verify(&world).await.0, Some(0));
}
