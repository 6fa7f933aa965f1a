//! Invalid manifests and objects affect only themselves.

use std::fs;

use proto::api::{DEFAULT_NETWORK_CONTROLLER, Family, address_set_id, address_set_name};
use tests::world::{Setup, World};

const NAME: &str = "www.example.com.";

async fn world(allow: &[&str]) -> World {
    World::start(Setup {
        zone: "www IN A 192.0.2.10\nlate IN A 192.0.2.11",
        allow,
        ..Setup::default()
    })
    .await
}

async fn expect_in_log(program: &tests::programs::Program, text: &str) {
    tests::wait::eventually(&format!("{text:?} in the log"), async || {
        let messages = program.messages();
        let found = messages
            .iter()
            .any(|message| message.to_string().contains(text));
        found
            .then_some(())
            .ok_or_else(|| format!("{} messages", messages.len()))
    })
    .await;
}

#[tokio::test]
async fn a_rule_with_a_bad_name_costs_itself_alone() {
    // All of these pass the pattern of the EgressFirewall's own definition.
    let world = world(&[
        "single",
        "-x.example.com",
        NAME,
        "a_b.example.com",
        "*.*.example.com",
    ])
    .await;
    world.look_up(NAME).await;
    world.expect_set(NAME, Family::V4, &["192.0.2.10"]).await;
    expect_in_log(&world.collector, "single").await;
    let metric = world
        .collector
        .admin()
        .metric("egress_collector_rule_names_refused", &["EgressFirewall"])
        .await;
    assert_eq!(metric.unwrap(), 4.0);
}

#[tokio::test]
async fn a_manifest_that_does_not_parse_is_named_and_the_others_used() {
    let world = world(&[NAME]).await;
    let bad = world.store.egress_firewall("bad");
    fs::create_dir_all(bad.parent().unwrap()).unwrap();
    fs::write(
        &bad,
        "apiVersion: k8s.ovn.org/v1\nkind: EgressFirewall\nspec: [this is\n",
    )
    .unwrap();
    world.store.allow("good", &["late.example.com"]);
    world
        .expect_flow("late.example.com.", Family::V4, "192.0.2.11")
        .await;
    expect_in_log(&world.collector, bad.to_str().unwrap()).await;
    world.look_up(NAME).await;
    world.expect_set(NAME, Family::V4, &["192.0.2.10"]).await;
    assert!(
        fs::read_to_string(&bad).unwrap().contains("[this is"),
        "it was overwritten"
    );
}

#[tokio::test]
async fn a_manifest_that_an_edit_breaks_is_no_deletion() {
    let world = world(&[NAME]).await;
    world.look_up(NAME).await;
    world.expect_set(NAME, Family::V4, &["192.0.2.10"]).await;
    let history = world.monitor().await;
    let file = world.store.egress_firewall("team");
    let whole = fs::read_to_string(&file).unwrap();
    // Like an interrupted editor.
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    expect_in_log(&world.collector, file.to_str().unwrap()).await;
    world.settle().await;
    assert_eq!(history.departures().await, [""; 0]);
    assert!(world.store.object(NAME).is_some());
    // Once repaired, with another name, it counts again.
    world.store.allow("team", &[NAME, "late.example.com"]);
    world
        .expect_flow("late.example.com.", Family::V4, "192.0.2.11")
        .await;
}

#[tokio::test]
async fn an_object_that_does_not_parse_is_named_and_never_overwritten() {
    let world = world(&[NAME, "late.example.com"]).await;
    world.look_up(NAME).await;
    world.expect_set(NAME, Family::V4, &["192.0.2.10"]).await;
    let object = world.store.object(NAME).unwrap().metadata.name.unwrap();
    let file = world.store.objects_folder().join(format!("{object}.yaml"));
    let history = world.monitor().await;
    fs::write(&file, "status: {broken").unwrap();
    for program in [&world.collector, &world.ovn_writer] {
        expect_in_log(program, file.to_str().unwrap()).await;
    }
    world.look_up(NAME).await;
    world.settle().await;
    assert_eq!(fs::read_to_string(&file).unwrap(), "status: {broken");
    assert_eq!(history.departures().await, [""; 0]);
    world
        .expect_flow("late.example.com.", Family::V4, "192.0.2.11")
        .await;
}

#[tokio::test]
async fn a_store_that_vanishes_closes_nothing() {
    let world = world(&[NAME]).await;
    world.look_up(NAME).await;
    world.expect_set(NAME, Family::V4, &["192.0.2.10"]).await;
    let history = world.monitor().await;
    let aside = world.workdir.join("aside");
    fs::rename(world.store.path(), &aside).unwrap();
    let says = async |program: &tests::programs::Program, code, words: &str| {
        tests::wait::eventually(&format!("{code} with {words:?}"), async || {
            match program.admin().get("/readyz").await {
                Ok((found, body)) if found == code && body.contains(words) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    };
    let words = "dns-name-resolvers: ok, but they cannot be read";
    says(&world.collector, 200, words).await;
    says(&world.ovn_writer, 503, "store: ").await;
    fs::rename(&aside, world.store.path()).unwrap();
    says(&world.collector, 200, "dns-name-resolvers: ok\n").await;
    world.ovn_writer.ready().await;
    world.settle().await;
    assert_eq!(history.departures().await, [""; 0]);
    world.expect_set(NAME, Family::V4, &["192.0.2.10"]).await;
}

#[tokio::test]
async fn a_name_whose_rows_the_server_refuses_is_logged_and_harms_no_other() {
    let world = world(&["late.example.com"]).await;
    // The name of a row is unique, and a foreign row already has the one for the new set.
    let id = address_set_id(DEFAULT_NETWORK_CONTROLLER, NAME, Family::V4);
    let taken = address_set_name(&id);
    let set = format!("name={taken}");
    world
        .northbound
        .nbctl(&["create", "Address_Set", &set])
        .unwrap();
    world.store.allow("team", &["late.example.com", NAME]);
    world.look_up(NAME).await;
    world
        .ovn_writer
        .counts("egress_ovn_writer_refused_names", &[], 1.0)
        .await;
    expect_in_log(&world.ovn_writer, "the server refuses").await;
    world
        .expect_flow("late.example.com.", Family::V4, "192.0.2.11")
        .await;
    let admin = world.ovn_writer.admin();
    tests::wait::eventually("/readyz says so and is ready", async || {
        match admin.get("/readyz").await {
            Ok((200, body)) if body.contains("northbound: ok, but not in sync") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert_eq!(
        admin
            .metric("egress_ovn_writer_in_sync", &[])
            .await
            .unwrap(),
        0.0
    );

    world
        .northbound
        .nbctl(&["destroy", "Address_Set", &taken])
        .unwrap();
    world.expect_set(NAME, Family::V4, &["192.0.2.10"]).await;
    tests::wait::eventually("all is well again", async || {
        match admin.get("/readyz").await {
            Ok((200, body)) if body.contains("northbound: ok\n") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}
