//! The rules, without a clock and a server.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use http_body_util::BodyExt;

use super::*;

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn election(identity: &str) -> Election {
    Election::new("collector", identity.to_owned())
}

impl Election {
    fn try_next(&mut self, found: Option<Lease>, now: Instant) -> Option<Lease> {
        self.next(found, now, Timestamp::UNIX_EPOCH)
    }
}

/// As a server stores it.
fn stored(mut lease: Lease, version: u32) -> Lease {
    lease.metadata.resource_version = Some(version.to_string());
    lease
}

fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref()
}

/// A Lease that another process has claimed at this second.
fn of_another(version: u32, second: i64) -> Lease {
    let clock = Timestamp::from_second(second).unwrap();
    let claim = election("other").next(None, Instant::now(), clock);
    stored(claim.unwrap(), version)
}

#[test]
fn lease_that_does_not_exist_is_made_and_counts_from_the_start_of_the_turn() {
    let now = Instant::now();
    let mut us = election("us");
    let claim = us.try_next(None, now).unwrap();
    assert_eq!(claim.metadata.resource_version, None);
    let spec = claim.spec.clone().unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some("us"));
    assert_eq!(spec.lease_duration_seconds, Some(15));
    assert_eq!(us.leads_until(), None, "it is not written yet");
    us.wrote(stored(claim.clone(), 1), now, now + seconds(1));
    assert_eq!(us.leads_until(), Some(now + seconds(10)));
    let renewal = us
        .try_next(Some(stored(claim, 1)), now + seconds(6))
        .unwrap();
    assert_eq!(renewal.metadata.resource_version.as_deref(), Some("1"));
    let transitions = renewal.spec.clone().unwrap().lease_transitions;
    assert_eq!(transitions, Some(1), "no one else had it between");
    us.wrote(stored(renewal, 2), now + seconds(6), now + seconds(6));
    assert_eq!(us.leads_until(), Some(now + seconds(16)));
}

#[test]
fn lease_of_another_is_taken_when_its_record_did_not_change_for_its_duration() {
    let now = Instant::now();
    let mut us = election("us");
    let at =
        |us: &mut Election, lease: Lease, second| us.try_next(Some(lease), now + seconds(second));
    assert_eq!(at(&mut us, of_another(1, 0), 0), None);
    assert_eq!(at(&mut us, of_another(1, 0), 14), None);
    // The other replica renews it, and the count begins again.
    assert_eq!(at(&mut us, of_another(2, 14), 14), None);
    // A standby writes its annotation, which is no renewal.
    let mut annotated = of_another(3, 14);
    annotated.metadata.annotations = Some([("x".to_owned(), "y".to_owned())].into());
    assert_eq!(at(&mut us, annotated.clone(), 28), None);
    let claim = at(&mut us, annotated, 29).unwrap();
    assert_eq!(holder(&claim), Some("us"));
    assert_eq!(claim.metadata.resource_version.as_deref(), Some("3"));
    assert_eq!(claim.spec.unwrap().lease_transitions, Some(2));
}

#[test]
fn lease_without_a_holder_is_taken_at_once() {
    let now = Instant::now();
    for nobody in [None, Some(String::new())] {
        let mut free = of_another(1, 0);
        free.spec.as_mut().unwrap().holder_identity = nobody;
        let claim = election("us").try_next(Some(free), now).unwrap();
        assert_eq!(holder(&claim), Some("us"));
    }
    let empty = stored(Lease::default(), 1);
    assert!(election("us").try_next(Some(empty), now).is_some());
}

#[test]
fn leader_that_finds_another_in_its_place_leads_no_more() {
    let now = Instant::now();
    let mut us = election("us");
    let claim = us.try_next(None, now).unwrap();
    us.wrote(stored(claim, 1), now, now);
    let theirs = of_another(2, 0);
    assert_eq!(us.try_next(Some(theirs.clone()), now + seconds(1)), None);
    assert_eq!(us.leads_until(), None);
    assert!(!us.may_hold());
    assert_eq!(us.released(theirs), None, "it is not ours");
}

#[test]
fn release_clears_the_holder() {
    let now = Instant::now();
    let mut us = election("us");
    assert!(!us.may_hold());
    let claim = stored(us.try_next(None, now).unwrap(), 7);
    us.wrote(claim.clone(), now, now);
    assert!(us.may_hold());
    let released = us.released(claim).unwrap();
    assert_eq!(holder(&released), None);
    assert_eq!(released.metadata.resource_version.as_deref(), Some("7"));
    assert!(!us.may_hold());
}

#[test]
fn leader_that_receives_fewer_dns_servers_hands_over_and_does_not_compete_for_a_while() {
    let now = Instant::now();
    let mut deaf = election("deaf");
    deaf.coverage = Some(Coverage::new(Box::new(|| 0)));
    let mut standby = election("standby");
    standby.coverage = Some(Coverage::new(Box::new(|| 2)));
    let mut lease = stored(deaf.try_next(None, now).unwrap(), 1);
    deaf.wrote(lease.clone(), now, now);
    let mut handed_over = None;
    for second in (0..120).step_by(2) {
        let at = now + seconds(second);
        let clock = Timestamp::from_second(i64::try_from(second).unwrap()).unwrap();
        if let Some(next) = standby.next(Some(lease.clone()), at, clock) {
            assert_eq!(holder(&next), Some("deaf"), "it writes its report only");
            lease = next;
        }
        lease = deaf.next(Some(lease), at, clock).unwrap();
        deaf.wrote(lease.clone(), at, at);
        if deaf.hands_over(at) {
            handed_over = Some(at);
            lease = deaf.released(lease).unwrap();
            break;
        }
    }
    let at = handed_over.unwrap();
    assert_eq!(at, now + seconds(60));
    // No standby writes it: then this replica takes it again after its pause.
    let at_most =
        |us: &mut Election, second| us.try_next(Some(lease.clone()), at + seconds(second));
    assert!(at_most(&mut standby, 1).is_some());
    let next = at_most(&mut deaf, 28);
    assert!(next.is_none_or(|it| holder(&it).is_none()));
    let next = at_most(&mut deaf, 31).unwrap();
    assert_eq!(holder(&next), Some("deaf"));
}

#[test]
fn released_lease_goes_to_the_standby_that_reported_most_dns_servers() {
    let now = Instant::now();
    let clock = Timestamp::from_second(0).unwrap();
    let heard = Arc::new(AtomicUsize::new(0));
    let read = Arc::clone(&heard);
    let mut new = election("new");
    new.coverage = Some(Coverage::new(Box::new(move || read.load(Relaxed))));
    let mut old = election("old");
    old.coverage = Some(Coverage::new(Box::new(|| 1)));
    let mut lease = of_another(1, 0);
    for standby in [&mut new, &mut old] {
        lease = standby.next(Some(lease), now, clock).unwrap();
        standby.wrote(lease.clone(), now, now);
    }
    // Its stream opens after the other standby heard the answers before it.
    heard.store(1, Relaxed);
    lease.spec.as_mut().unwrap().holder_identity = None;
    let reported = new.next(Some(lease.clone()), now + seconds(6), clock);
    lease = reported.unwrap();
    assert_eq!(holder(&lease), None, "it writes its report only");
    new.wrote(lease.clone(), now, now + seconds(6));
    let taken = old.try_next(Some(lease.clone()), now + seconds(7)).unwrap();
    assert_eq!(holder(&taken), Some("old"));
    // If the other has ended, too.
    let taken = new.try_next(Some(lease), now + seconds(8)).unwrap();
    assert_eq!(holder(&taken), Some("new"));
}

/// Another replica wrote between the read and the write.
#[tokio::test]
async fn lease_is_released_although_a_standby_wrote_at_the_same_time() {
    let lease = Arc::new(Mutex::new(stored(Lease::default(), 1)));
    let (server, conflicts) = (Arc::clone(&lease), Arc::new(AtomicUsize::new(0)));
    let met = Arc::clone(&conflicts);
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (server, met) = (Arc::clone(&server), Arc::clone(&met));
        async move {
            let is_write = request.method() == http::Method::PUT;
            let sent = request.into_body().collect().await.unwrap().to_bytes();
            let mut current = server.lock().unwrap();
            let (status, body) = if is_write && met.load(Relaxed) == 0 {
                met.store(1, Relaxed);
                (
                    409,
                    r#"{"kind": "Status", "code": 409, "reason": "Conflict"}"#.to_owned(),
                )
            } else {
                if is_write {
                    *current = serde_json::from_slice(&sent).unwrap();
                }
                (200, serde_json::to_string(&*current).unwrap())
            };
            let answer = http::Response::builder().status(status);
            let body = kube::client::Body::from(body.into_bytes());
            Ok::<_, std::convert::Infallible>(answer.body(body).unwrap())
        }
    });
    let cluster = Cluster::with_client(kube::Client::new(service, "default"), "test");
    let mut us = Candidate::new(&cluster, "default", "test", "us".to_owned());
    let now = Instant::now();
    let ours = us
        .election
        .try_next(Some(lease.lock().unwrap().clone()), now)
        .unwrap();
    us.election.wrote(stored(ours.clone(), 1), now, now);
    *lease.lock().unwrap() = stored(ours, 1);
    us.release().await;
    assert_eq!(conflicts.load(Relaxed), 1);
    assert_eq!(holder(&lease.lock().unwrap()), None);
}
