use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use http::{Request, Response};
use kube::{Client, client::Body};

use super::*;

#[test]
fn the_same_is_said_once_in_ten_minutes_with_how_often_it_was_reported() {
    let (mut said, now) = (Said::default(), Instant::now());
    assert_eq!(said.again(1, now), Verdict::Say(1));
    for i in 1..10 {
        assert_eq!(
            said.again(1, now + Duration::from_secs(i)),
            Verdict::Repeated
        );
    }
    assert_eq!(said.again(2, now), Verdict::Say(1));
    assert_eq!(said.again(1, now + REPEAT_AFTER), Verdict::Say(11));
    said.forget(1);
    assert_eq!(said.again(1, now + REPEAT_AFTER), Verdict::Say(1));
}

#[test]
fn not_too_much_is_said_at_once() {
    let (mut said, now) = (Said::default(), Instant::now());
    let say = |said: &mut Said, id, now| matches!(said.again(id, now), Verdict::Say(_));
    assert_eq!((0..1000).filter(|id| say(&mut said, *id, now)).count(), 50);
    let later = now + Duration::from_millis(3_900);
    assert_eq!(
        (1000..2000).filter(|id| say(&mut said, *id, later)).count(),
        3
    );
    let later = now + Duration::from_secs(3_600);
    assert_eq!(
        (2000..3000).filter(|id| say(&mut said, *id, later)).count(),
        50
    );
}

#[test]
fn what_is_remembered_is_bounded() {
    let (mut said, now) = (Said::default(), Instant::now());
    for id in 0..100_000 {
        let second = now + Duration::from_millis(id * 100);
        said.again(id, second);
        assert!(said.recent.len() <= MAX_REMEMBERED);
    }
}

#[tokio::test]
async fn reports_that_nobody_takes_are_dropped_and_not_waited_for() {
    let (reporter, reports) = Reporter::with_queue(QUEUE);
    for i in 0..QUEUE * 2 {
        let about = ObjectReference::default();
        let taken = reporter.report(about, Severity::Warning, "Test", "ü".repeat(MAX_NOTE));
        assert_eq!(taken, i < QUEUE);
    }
    assert_eq!(reports.len(), QUEUE);
}

#[tokio::test(start_paused = true)]
async fn what_is_said_too_fast_is_said_later() {
    let (reporter, reports) = Reporter::with_queue(QUEUE);
    let mut reporting = Reporting {
        reports,
        cluster: None,
        instance: String::new(),
        said: Said::default(),
        waiting: Waiting::default(),
    };
    for i in 0..100 {
        let about = ObjectReference::default();
        assert!(reporter.report(about, Severity::Warning, "Test", i.to_string()));
    }
    let start = Instant::now();
    for _ in 0..100 {
        let report = reporting.reports.recv().await.unwrap();
        reporting.say(report).await;
    }
    assert_eq!(start.elapsed().as_secs(), 50);
    assert_eq!(reporting.said.recent.len(), 100);
}

/// An API server that answers these, one after the other, and then that all is made; and when it was asked.
fn server(answers: &'static [(u16, &'static str)]) -> (Cluster, Arc<Mutex<Vec<Instant>>>) {
    let asked: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let seen = Arc::clone(&asked);
    let service = tower::service_fn(move |_: Request<Body>| {
        let mut seen = seen.lock().unwrap();
        let (status, retry_after) = answers.get(seen.len()).copied().unwrap_or((201, ""));
        seen.push(Instant::now());
        async move {
            let mut answer = Response::builder().status(status);
            if !retry_after.is_empty() {
                answer = answer.header("Retry-After", retry_after);
            }
            Ok::<_, Infallible>(answer.body(Body::from(b"{}".to_vec())).unwrap())
        }
    });
    let client = Client::new(service, "default");
    (Cluster::with_client(client, "tests"), asked)
}

/// Reports so many different things at once to a server that answers these; returns when it was asked, in seconds.
async fn asked_at(reports: usize, answers: &'static [(u16, &'static str)]) -> Vec<u64> {
    let (reporter, reports_to_say) = Reporter::with_queue(QUEUE);
    let (cluster, asked) = server(answers);
    let reporting = Reporting {
        reports: reports_to_say,
        cluster: Some(cluster),
        instance: String::new(),
        said: Said::default(),
        waiting: Waiting::default(),
    };
    for i in 0..reports {
        let about = ObjectReference::default();
        assert!(reporter.report(about, Severity::Warning, "Test", i.to_string()));
    }
    let (token, start) = (CancellationToken::new(), Instant::now());
    let saying = tokio::spawn(reporting.run(token.clone()));
    sleep(Duration::from_secs(3600)).await;
    token.cancel();
    saying.await.unwrap().unwrap();
    let asked = asked.lock().unwrap();
    asked.iter().map(|at| (*at - start).as_secs()).collect()
}

#[tokio::test(start_paused = true)]
async fn an_event_that_the_server_cannot_take_is_raised_later_and_others_with_it() {
    let asked = asked_at(3, &[(503, ""), (503, ""), (500, "7"), (201, "")]).await;
    // The first tells that there is no use in trying the others; what works tells the contrary.
    assert_eq!(asked, [0, 1, 3, 10, 10, 10]);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_the_server_will_never_take_is_not_tried_again() {
    let asked = asked_at(2, &[(422, ""), (403, "")]).await;
    assert_eq!(asked, [0, 0]);
}
