//! The requirements for reads and writes.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use proto::api::DnsNameResolver;
use serde_json::json;
use tokio::time::timeout;

use super::{
    super::{ObjectKey, Precondition, Store, StoreError},
    DEADLINE, add_name, addresses, key, resolver, status,
};

#[track_caller]
fn refused<T: fmt::Debug>(result: Result<T, StoreError>, expected: fn(&StoreError) -> bool) {
    match result {
        Err(error) if expected(&error) => {}
        other => panic!("{other:?}"),
    }
}

fn is_not_found(error: &StoreError) -> bool {
    matches!(error, StoreError::NotFound(_))
}

fn is_conflict(error: &StoreError) -> bool {
    matches!(error, StoreError::Conflict(_))
}

fn is_invalid(error: &StoreError) -> bool {
    matches!(error, StoreError::Invalid { .. })
}

/// `create` and `get` return the given object without its status, with uid and version. It is not made again.
pub async fn an_object_is_stored_as_it_was_made(store: &impl Store, namespace: &str) {
    let mut object = resolver(namespace, "a");
    object
        .labels_mut()
        .insert("team".to_owned(), "blue".to_owned());
    object
        .annotations_mut()
        .insert("example.com/note".to_owned(), "yes".to_owned());
    object.status = Some(status(&["www.example.com."]));
    let made = store.create(&object).await.unwrap();
    assert_eq!(made.status, None);
    assert!(made.uid().is_some_and(|uid| !uid.is_empty()));
    assert!(made.resource_version().is_some());
    assert_eq!(ObjectKey::of(&made), key(namespace, "a"));
    assert_eq!(made.spec, object.spec);
    assert_eq!(made.labels(), object.labels());
    assert_eq!(made.annotations(), object.annotations());
    let again = store.create(&resolver(namespace, "a")).await;
    refused(again, |error| matches!(error, StoreError::AlreadyExists(_)));
    let got: DnsNameResolver = store.get(&key(namespace, "a")).await.unwrap();
    assert_eq!(got, made);
}

/// For reads, writes and deletions.
pub async fn what_does_not_exist_is_not_found(store: &impl Store, namespace: &str) {
    let missing = key(namespace, "a");
    refused(store.get::<DnsNameResolver>(&missing).await, is_not_found);
    let mut object = resolver(namespace, "a");
    object.metadata.resource_version = Some("1".to_owned());
    refused(store.replace_status(&object).await, is_not_found);
    let deleted = store
        .delete::<DnsNameResolver>(&missing, &Precondition::default())
        .await;
    refused(deleted, is_not_found);
}

/// Labels, annotations and spec of the given object are ignored.
pub async fn a_status_is_replaced_and_nothing_else(store: &impl Store, namespace: &str) {
    let mut object = resolver(namespace, "a");
    object
        .labels_mut()
        .insert("team".to_owned(), "blue".to_owned());
    let made = store.create(&object).await.unwrap();

    let mut changed = made.clone();
    changed.status = Some(status(&["www.example.com."]));
    changed.labels_mut().clear();
    changed
        .annotations_mut()
        .insert("note".to_owned(), "yes".to_owned());
    changed.spec.name = "changed.example.com.".to_owned();
    let replaced = store.replace_status(&changed).await.unwrap();
    assert_eq!(replaced.status, changed.status);
    assert_eq!(replaced.labels(), made.labels());
    assert_eq!(replaced.annotations(), made.annotations());
    assert_eq!(replaced.spec, made.spec);
    assert_eq!(replaced.uid(), made.uid());
    assert_ne!(replaced.resource_version(), made.resource_version());
    let got: DnsNameResolver = store.get(&key(namespace, "a")).await.unwrap();
    assert_eq!(got, replaced);
}

/// Labels, annotations and owners. The fields of the status in the given object are ignored.
pub async fn all_but_the_status_is_replaced_if_the_version_is_the_stored_one(
    store: &impl Store,
    namespace: &str,
) {
    let mut object = resolver(namespace, "a");
    object
        .labels_mut()
        .insert("team".to_owned(), "blue".to_owned());
    let mut made = store.create(&object).await.unwrap();
    made.status = Some(status(&["www.example.com."]));
    let old = store.replace_status(&made).await.unwrap();
    let mut changed = old.clone();
    changed.status = None;
    changed.labels_mut().clear();
    changed
        .annotations_mut()
        .insert("example.com/note".to_owned(), "yes".to_owned());
    changed.owner_references_mut().push(OwnerReference {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        name: "owner".to_owned(),
        uid: "00000000-0000-4000-8000-000000000000".to_owned(),
        ..OwnerReference::default()
    });
    let replaced = store.replace(&changed).await.unwrap();
    assert_eq!(replaced.status, old.status);
    assert_eq!(replaced.labels(), changed.labels());
    assert_eq!(replaced.annotations(), changed.annotations());
    assert_eq!(replaced.owner_references(), changed.owner_references());
    assert_eq!(replaced.uid(), old.uid());
    let got: DnsNameResolver = store.get(&key(namespace, "a")).await.unwrap();
    assert_eq!(got, replaced);
    refused(store.replace(&old).await, is_conflict);
    let mut unversioned = old;
    unversioned.metadata.resource_version = None;
    refused(store.replace(&unversioned).await, is_invalid);
}

/// The version is needed, and the uid is compared if it is given.
pub async fn a_status_of_an_old_version_or_another_uid_is_a_conflict(
    store: &impl Store,
    namespace: &str,
) {
    let old = store.create(&resolver(namespace, "a")).await.unwrap();
    let with = |object: &DnsNameResolver, name| DnsNameResolver {
        status: Some(status(&[name])),
        ..object.clone()
    };
    let first = with(&old, "first.example.com.");
    let first = store.replace_status(&first).await.unwrap();
    let second = with(&old, "second.example.com.");
    refused(store.replace_status(&second).await, is_conflict);
    let mut other = with(&first, "second.example.com.");
    other.metadata.uid = Some("00000000-0000-4000-8000-000000000000".to_owned());
    refused(store.replace_status(&other).await, is_conflict);
    other.metadata.resource_version = None;
    other.metadata.uid = None;
    refused(store.replace_status(&other).await, is_invalid);
    let got: DnsNameResolver = store.get(&key(namespace, "a")).await.unwrap();
    assert_eq!(got, first);
    other.metadata.resource_version = first.resource_version();
    let replaced = store.replace_status(&other).await.unwrap();
    assert_eq!(replaced.uid(), old.uid());
}

/// Each writer reads, adds and writes until it succeeds.
pub async fn concurrent_writers_lose_no_update(store: &impl Store, namespace: &str) {
    store.create(&resolver(namespace, "a")).await.unwrap();
    let writers = ["x", "y", "z"].map(|writer| {
        let (store, key) = (store.clone(), key(namespace, "a"));
        tokio::spawn(async move {
            for i in 0..10 {
                add_name(&store, &key, &format!("{writer}{i}.example.com.")).await;
            }
        })
    });
    for writer in writers {
        timeout(DEADLINE, writer).await.unwrap().unwrap();
    }
    let got: DnsNameResolver = store.get(&key(namespace, "a")).await.unwrap();
    assert_eq!(got.status.unwrap().resolved_names.len(), 30);
}

/// The precondition has a uid and a version.
pub async fn a_deletion_holds_to_its_precondition(store: &impl Store, namespace: &str) {
    let old = store.create(&resolver(namespace, "a")).await.unwrap();
    let mut new = old.clone();
    new.status = Some(status(&["www.example.com."]));
    let new = store.replace_status(&new).await.unwrap();
    let key = key(namespace, "a");
    let of = |object: &DnsNameResolver| Precondition {
        uid: object.uid(),
        resource_version: object.resource_version(),
    };
    let other_uid = Precondition {
        uid: Some("00000000-0000-4000-8000-000000000000".to_owned()),
        resource_version: None,
    };
    for precondition in [of(&old), other_uid] {
        let deleted = store.delete::<DnsNameResolver>(&key, &precondition).await;
        refused(deleted, is_conflict);
    }
    store
        .delete::<DnsNameResolver>(&key, &of(&new))
        .await
        .unwrap();
    refused(store.get::<DnsNameResolver>(&key).await, is_not_found);
}

/// Preconditions for the first object do not match the second.
pub async fn an_object_that_was_made_again_has_another_uid(store: &impl Store, namespace: &str) {
    let key = key(namespace, "a");
    let mut first = store.create(&resolver(namespace, "a")).await.unwrap();
    store
        .delete::<DnsNameResolver>(&key, &Precondition::default())
        .await
        .unwrap();
    let second = store.create(&resolver(namespace, "a")).await.unwrap();
    assert_ne!(first.uid(), second.uid());
    assert_ne!(first.resource_version(), second.resource_version());
    first.status = Some(status(&["www.example.com."]));
    refused(store.replace_status(&first).await, is_conflict);
    let precondition = Precondition {
        uid: first.uid(),
        resource_version: None,
    };
    let deleted = store.delete::<DnsNameResolver>(&key, &precondition).await;
    refused(deleted, is_conflict);
}

/// The error is permanent, so a retry is pointless.
pub async fn a_name_that_cannot_be_stored_is_refused(store: &impl Store, namespace: &str) {
    for name in ["Upper", "a_b", "-a", "a..b", &"a".repeat(254)] {
        refused(store.create(&resolver(namespace, name)).await, is_invalid);
    }
}

/// The error has a kind of its own, because the caller can write less.
pub async fn what_is_too_large_is_told_apart(store: &impl Store, namespace: &str) {
    let mut object = store.create(&resolver(namespace, "a")).await.unwrap();
    let entry = json!({ "dnsName": "www.example.com.", "resolvedAddresses": addresses(0..60_000) });
    object.status = Some(serde_json::from_value(json!({ "resolvedNames": [entry] })).unwrap());
    let is_too_large = |error: &StoreError| matches!(error, StoreError::TooLarge { .. });
    refused(store.replace_status(&object).await, is_too_large);
    object.status = Some(status(&["www.example.com."]));
    store.replace_status(&object).await.unwrap();
}
