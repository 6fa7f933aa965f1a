//! Events on objects.

use k8s_openapi::api::events::v1::Event;
use kube::{Api, Resource, api::ListParams};
use runtime::{
    kube_events::{Reporter, Severity},
    store::{Store, contract::resolver},
};
use tests::{kube::ApiServer, wait::eventually};
use tokio_util::sync::CancellationToken;

use crate::cluster::{open_store, store};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reports_of_two_replicas_are_one_event_for_each_reason_with_the_last_note() {
    let server = ApiServer::shared().await;
    let namespace = server.namespace().await;
    let object = store(&server)
        .await
        .create(&resolver(&namespace, "a"))
        .await
        .unwrap();
    let token = CancellationToken::new();
    let mut tasks = Vec::new();
    let long = "ü".repeat(1000);
    for _ in 0..2 {
        let (reporter, reporting) = Reporter::new(&open_store(&server).await);
        tasks.push(tokio::spawn(reporting.run(token.clone())));
        for _ in 0..5 {
            let say = |severity, reason, note: &str| {
                reporter.report(object.object_ref(&()), severity, reason, note);
            };
            say(
                Severity::Warning,
                "NameRefused",
                "a.example.com. is refused",
            );
            say(
                Severity::Warning,
                "NameRefused",
                "b.example.com. is refused",
            );
            say(Severity::Normal, "Resolved", &long);
        }
    }
    let events: Api<Event> = Api::namespaced(server.client().await, &namespace);
    let found = eventually("the Events", async || {
        let found = events.list(&ListParams::default()).await.unwrap().items;
        let has_last = |event: &Event| event.note.as_ref().is_some_and(|it| !it.starts_with('a'));
        let is_whole = found.len() == 2 && found.iter().all(has_last);
        is_whole
            .then_some(found.clone())
            .ok_or(format!("{found:?}"))
    })
    .await;
    for event in &found {
        assert_eq!(event.reporting_controller.as_deref(), Some("tests"));
        let regarding = event.regarding.as_ref().unwrap();
        assert_eq!(regarding.uid, object.metadata.uid);
        assert_eq!(regarding.kind.as_deref(), Some("DNSNameResolver"));
    }
    let mut said: Vec<_> = found
        .iter()
        .map(|event| {
            let text = |part: &Option<String>| part.clone().unwrap();
            (text(&event.type_), text(&event.reason), text(&event.note))
        })
        .collect();
    said.sort();
    let expected = |severity: &str, reason: &str, note: &str| {
        (severity.to_owned(), reason.to_owned(), note.to_owned())
    };
    assert_eq!(
        said,
        [
            expected("Normal", "Resolved", &long[..1024]),
            expected("Warning", "NameRefused", "b.example.com. is refused"),
        ]
    );
    token.cancel();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
}
