//! The events of `/watch`, from the controller.

use std::{sync::Arc, time::Duration};

use runtime::inspect::watch::Subscription;

use super::{World, answer, at, name};
use crate::objects::{ManageObjects, NewAddresses, NewStatus, WatchEvent};

async fn told(watching: &mut Subscription<WatchEvent>) -> Vec<WatchEvent> {
    let mut told = Vec::new();
    while let Ok(event) = tokio::time::timeout(Duration::ZERO, watching.next()).await {
        told.push(Arc::unwrap_or_clone(event.unwrap().unwrap()));
    }
    told
}

#[tokio::test]
async fn a_new_address_is_told_at_its_answer_and_once_the_status_has_it() {
    let mut world = World::new(ManageObjects::Auto);
    world.want(&["a.test", "*.w.test"]);
    world.settle();
    // Nobody is told.
    world.observe("a.test", "192.0.2.9");
    world.settle();
    let mut watching = world.config.shared.watch.open().unwrap();
    let mut observation = answer("a.test", "192.0.2.1", world.now);
    observation.answered_at = Some(at(world.now - 3));
    world.controller.observe(&observation);
    let new = NewAddresses {
        rule: name("a.test"),
        name: name("a.test"),
        addresses: vec!["192.0.2.1".parse().unwrap()],
        more: 0,
        known: Vec::new(),
        answered_at: observation.answered_at,
        read_at: at(world.now),
        source: observation.source,
        namespaces: Vec::new(),
    };
    assert_eq!(told(&mut watching).await, [WatchEvent::Answer(new.clone())]);
    // It is new only once.
    world.now += 1;
    world.observe("a.test", "192.0.2.1");
    world.settle();
    let events = told(&mut watching).await;
    let [WatchEvent::Status(status)] = events.as_slice() else {
        panic!("{events:?}");
    };
    let object = world.store.get(&status.object).unwrap();
    let version = object.metadata.resource_version.clone().unwrap();
    let expected = NewStatus {
        rule: name("a.test"),
        addresses: vec![(name("a.test"), new.addresses[0])],
        more: 0,
        removed: Vec::new(),
        more_removed: 0,
        object: status.object.clone(),
        resource_version: version,
        acknowledged_at: status.acknowledged_at,
        namespaces: Vec::new(),
    };
    assert_eq!(*status, expected);
    // Only later does a look-up no longer have it.
    world.now += 600_000;
    world.observe("a.test", "192.0.2.2");
    world.settle();
    let lost = told(&mut watching)
        .await
        .into_iter()
        .find_map(|event| match event {
            WatchEvent::Status(status) if !status.removed.is_empty() => Some(status),
            WatchEvent::Status(_) | WatchEvent::Answer(_) => None,
        });
    let lost = lost.unwrap();
    assert!(lost.removed.contains(&(name("a.test"), new.addresses[0])));

    // Another name under the wildcard has the address already.
    world.observe("x.w.test", "192.0.2.7");
    world.now += 1_000;
    world.settle();
    told(&mut watching).await;
    world.observe("y.w.test", "192.0.2.7");
    let events = told(&mut watching).await;
    let [WatchEvent::Answer(shared)] = events.as_slice() else {
        panic!("{events:?}");
    };
    assert_eq!(
        (&shared.rule, &shared.name),
        (&name("*.w.test"), &name("y.w.test"))
    );
    assert_eq!(shared.known, shared.addresses);
}
