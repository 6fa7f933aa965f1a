//! The watch against a scripted API server, in paused time.

use std::{
    collections::VecDeque,
    convert::Infallible,
    future::pending,
    pin::Pin,
    sync::{Arc, Mutex},
};

use futures_util::StreamExt;
use http::{Request, Response};
use kube::client::Body;
use proto::api::DnsNameResolver;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::*;

type Events = Pin<Box<dyn Stream<Item = Event<DnsNameResolver>> + Send>>;

/// A part of the request's path and query, and the answer to it.
type Scripted = (&'static str, u16, String);

const LIST: &str = "dnsnameresolvers?&limit=100";

/// How late the server answers a request for one object.
const LATE: Duration = Duration::from_secs(5);

/// Each watch lasts this long, and sends its objects at its end. After the script the server does not answer any more.
fn watch_that_lasts(lasts: Duration, script: impl IntoIterator<Item = Scripted>) -> Events {
    let script: Arc<Mutex<VecDeque<Scripted>>> = Arc::new(Mutex::new(script.into_iter().collect()));
    let service = tower::service_fn(move |request: Request<Body>| {
        let next = script.lock().unwrap().pop_front();
        async move {
            let Some((part, status, body)) = next else {
                return pending().await;
            };
            let uri = request.uri().to_string();
            assert!(uri.contains(part), "{uri} where {part} is expected");
            if uri.contains("watch=true") && !uri.contains("sendInitialEvents") {
                sleep(lasts).await;
            }
            if uri.ends_with("limit=1") {
                sleep(LATE).await;
            }
            let answer = Response::builder().status(status);
            Ok::<_, Infallible>(answer.body(Body::from(body.into_bytes())).unwrap())
        }
    });
    let client = Client::new(service, "default");
    Box::pin(watch(client, Scope::All, None, BadObjects::default()))
}

fn object(name: &str, version: u32) -> Value {
    json!({
        "apiVersion": "network.openshift.io/v1alpha1",
        "kind": "DNSNameResolver",
        "metadata": { "namespace": "x", "name": name, "resourceVersion": version.to_string() },
        "spec": { "name": "www.example.com." },
    })
}

/// A page of a list.
fn page(version: u32, token: &str, items: &[Value]) -> String {
    let body = json!({
        "apiVersion": "network.openshift.io/v1alpha1",
        "kind": "DNSNameResolverList",
        "metadata": { "resourceVersion": version.to_string(), "continue": token },
        "items": items,
    });
    body.to_string()
}

/// A streaming list, whose watch then ends.
fn streamed(version: u32, item: Value) -> Scripted {
    let end = json!({
        "apiVersion": "network.openshift.io/v1alpha1",
        "kind": "DNSNameResolver",
        "metadata": {
            "resourceVersion": version.to_string(),
            "annotations": { "k8s.io/initial-events-end": "true" },
        },
    });
    changes(
        "sendInitialEvents=true",
        &[("ADDED", item), ("BOOKMARK", end)],
    )
}

/// The answer of a server without streaming lists.
fn without_streams() -> Scripted {
    let status = json!({ "kind": "Status", "status": "Failure", "code": 422, "reason": "Invalid" });
    ("sendInitialEvents=true", 422, status.to_string())
}

/// The server's version, in the answer to a request for one object.
fn version(version: u32) -> Scripted {
    ("dnsnameresolvers?&limit=1", 200, page(version, "", &[]))
}

/// A watch that delivers these and ends.
fn changes(from: &'static str, changes: &[(&str, Value)]) -> Scripted {
    let line = |(kind, object): &(&str, Value)| {
        json!({ "type": kind, "object": object }).to_string() + "\n"
    };
    (from, 200, changes.iter().map(line).collect())
}

/// The names and versions of an event's objects.
fn shown(event: &Event<DnsNameResolver>) -> String {
    let of = |object: &DnsNameResolver| {
        let meta = object.meta();
        format!(
            "{}@{}",
            meta.name.as_deref().unwrap(),
            meta.resource_version.as_deref().unwrap()
        )
    };
    match event {
        Event::Synced(objects) => {
            let objects: Vec<_> = objects.iter().map(of).collect();
            format!("synced {}", objects.join(" "))
        }
        Event::Applied(object) => format!("applied {}", of(object)),
        Event::Deleted(key) => format!("deleted {}", key.name),
        other => format!("{other:?}"),
    }
}

async fn sees(mut events: Events, expected: &[&str]) {
    for expected in expected {
        let event = timeout(3 * CHECK, events.next()).await;
        assert_eq!(shown(&event.unwrap().unwrap()), *expected);
    }
}

#[tokio::test(start_paused = true)]
async fn event_during_the_look_for_a_restore_is_none() {
    let script = [
        streamed(5, object("a", 3)),
        // It comes after the server made its answer, and before that is here.
        changes("resourceVersion=5", &[("MODIFIED", object("a", 9))]),
        version(7),
        changes("resourceVersion=9", &[("MODIFIED", object("a", 11))]),
    ];
    let events = watch_that_lasts(CHECK + LATE / 2, script);
    sees(events, &["synced a@3", "applied a@9", "applied a@11"]).await;
}

#[tokio::test(start_paused = true)]
async fn server_without_streaming_lists_is_listed() {
    let script = [
        without_streams(),
        (LIST, 200, page(9, "more", &[object("a", 1)])),
        ("continue=more", 200, page(9, "", &[object("b", 2)])),
        changes("resourceVersion=9", &[("DELETED", object("b", 10))]),
    ];
    let events = watch_that_lasts(Duration::ZERO, script);
    sees(events, &["synced a@1 b@2", "deleted b"]).await;
}
