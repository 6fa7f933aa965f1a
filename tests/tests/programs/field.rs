//! Inputs from the field, in `tests/fixtures/field`: manifests that people put into the folder.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::Value;
use tests::{wait::eventually, world::World};

#[tokio::test]
async fn manifests_of_the_field_are_read_and_a_misspelt_field_is_named() {
    let world = World::start(Default::default()).await;
    let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/field/manifests");
    for entry in fs::read_dir(manifests).unwrap() {
        let file = entry.unwrap().path();
        let to = world.store.path().join(file.file_name().unwrap());
        fs::copy(&file, to).unwrap();
    }
    let expected = ["a", "b", "c", "d", "e", "g"].map(|it| format!("{it}.shop.example."));
    eventually("an object for each name", async || {
        let objects = world.store.objects().into_iter();
        let mut names: BTreeSet<String> = objects.map(|object| object.spec.name).collect();
        names.remove("*.fence.test.");
        (names.iter().eq(&expected))
            .then_some(())
            .ok_or(format!("{names:?}"))
    })
    .await;
    eventually("the misspelt field is named", async || {
        let messages = world.collector.messages();
        let is_named = |message: &Value| {
            let text = message.to_string();
            text.contains("wrong-case.yaml") && text.contains("dnsname")
        };
        let is_named = messages.iter().any(is_named);
        is_named
            .then_some(())
            .ok_or_else(|| format!("{messages:?}"))
    })
    .await;
}
