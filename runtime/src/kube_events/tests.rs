use std::{convert::Infallible, iter::from_fn, time::Duration};

use http::{Request, Response};
use kube::{Client, client::Body};

use super::*;

fn about(namespace: &str) -> ObjectReference {
    ObjectReference {
        namespace: Some(namespace.to_owned()),
        ..ObjectReference::default()
    }
}

#[tokio::test]
async fn what_is_not_taken_is_dropped_and_its_caller_is_told_so() {
    let (reporter, mut reports) = Reporter::with_queue(QUEUE);
    let report = |namespace| {
        reporter.report(
            about(namespace),
            Severity::Warning,
            "Test",
            "ü".repeat(MAX_NOTE),
        )
    };
    for i in 0..QUEUE {
        assert_eq!(report("noisy"), i < QUEUE / 2);
    }
    assert!(report("quiet"));
    assert_eq!(from_fn(|| reports.try_next()).count(), QUEUE / 2 + 1);
}

/// The time and the path of each request to the server.
type Asked = Arc<Mutex<Vec<(Instant, String)>>>;

/// An API server that gives these answers in order, and then accepts everything.
fn server(answers: &'static [(u16, &'static str)]) -> (Cluster, Asked) {
    let asked = Asked::default();
    let seen = Arc::clone(&asked);
    let service = tower::service_fn(move |request: Request<Body>| {
        let mut seen = seen.lock().unwrap();
        let (status, retry_after) = answers.get(seen.len()).copied().unwrap_or((201, ""));
        seen.push((Instant::now(), request.uri().path().to_owned()));
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

/// A reporter whose Events go to a server with these answers.
struct World {
    reporter: Reporter,
    asked: Asked,
    start: Instant,
}

impl World {
    fn start(answers: &'static [(u16, &'static str)]) -> Self {
        let (reporter, reports) = Reporter::with_queue(QUEUE);
        let (cluster, asked) = server(answers);
        let reporting = Reporting {
            reports,
            cluster: Some(cluster),
            instance: String::new(),
            said: Said::default(),
            waiting: Waiting::default(),
        };
        tokio::spawn(reporting.run(CancellationToken::new()));
        Self {
            reporter,
            asked,
            start: Instant::now(),
        }
    }

    /// Makes this many different reports.
    fn report(&self, namespace: &str, reports: usize) {
        for i in 0..reports {
            let about = about(namespace);
            let note = i.to_string();
            assert!(self.reporter.report(about, Severity::Warning, "Test", note));
        }
    }

    /// The times of requests for Events of the namespace, in seconds.
    fn asked_at(&self, namespace: &str) -> Vec<u64> {
        let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
        let asked = self.asked.lock().unwrap();
        let asked = asked.iter().filter(|(_, of)| *of == path);
        asked.map(|(at, _)| (*at - self.start).as_secs()).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_said_too_fast_is_said_later() {
    let world = World::start(&[]);
    world.report("team", 100);
    sleep(Duration::from_secs(3600)).await;
    let asked = world.asked_at("team");
    assert_eq!(asked[..50], [0; 50]);
    assert_eq!(asked[50..], Vec::from_iter(1..=50));
}

#[tokio::test(start_paused = true)]
async fn thousands_of_reports_of_one_namespace_delay_one_of_another_by_a_second() {
    let world = World::start(&[]);
    let make = |i: u32| {
        let (about, note) = (about("noisy"), i.to_string());
        world
            .reporter
            .report(about, Severity::Warning, "Test", note)
    };
    let taken = (0..5000).filter(|i| make(*i)).count();
    assert_eq!(taken, QUEUE / 2);
    sleep(Duration::from_secs(100)).await;
    world.report("quiet", 1);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(world.asked_at("quiet"), [101]);
}

#[tokio::test(start_paused = true)]
async fn an_event_the_api_server_cannot_take_is_raised_later_with_others() {
    let world = World::start(&[(503, ""), (503, ""), (500, "7"), (201, "")]);
    world.report("team", 3);
    sleep(Duration::from_secs(3600)).await;
    // The first failure postpones the others; the first success resumes them.
    assert_eq!(world.asked_at("team"), [0, 1, 3, 10, 10, 10]);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_the_server_will_never_take_is_not_tried_again() {
    let world = World::start(&[(422, ""), (403, "")]);
    world.report("team", 2);
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(world.asked_at("team"), [0, 0]);
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_an_event_of_a_namespace_with_few_is_among_the_first() {
    // The waits between these answers add up to three minutes.
    let world = World::start(&[(503, ""); 8]);
    world.report("noisy", 400);
    sleep(Duration::from_secs(170)).await;
    world.report("quiet", 1);
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(world.asked_at("quiet"), [183]);
    let asked = world.asked.lock().unwrap();
    let before = asked
        .iter()
        .filter(|(at, _)| (*at - world.start).as_secs() == 183);
    let paths: Vec<_> = before
        .map(|(_, path)| path.contains("quiet"))
        .take(3)
        .collect();
    assert_eq!(paths, [false, true, false]);
}
