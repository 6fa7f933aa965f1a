//! Replicas with a small API server, in paused time. The wall clock of another replica is two hours off.

use std::{
    convert::Infallible,
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
};

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use k8s_openapi::jiff::SignedDuration;
use kube::client::Body;
use tokio::{
    task::JoinHandle,
    time::{advance, sleep},
};
use tokio_util::sync::CancellationToken;

use super::{
    super::{Contest, Leader, Leadership},
    *,
};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The Lease in an API server.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<Option<Lease>>>);

impl Server {
    fn lease(&self) -> Option<Lease> {
        self.0.lock().unwrap().clone()
    }

    fn holder(&self) -> String {
        let spec = self.lease().and_then(|lease| lease.spec);
        spec.and_then(|it| it.holder_identity).unwrap_or_default()
    }

    /// Stores a Lease, whatever is there.
    fn put(&self, mut lease: Lease) -> Lease {
        let mut stored = self.0.lock().unwrap();
        let version = |it: &Lease| it.metadata.resource_version.clone()?.parse::<u32>().ok();
        let version = stored.as_ref().and_then(version).unwrap_or(0) + 1;
        lease.metadata.resource_version = Some(version.to_string());
        *stored = Some(lease.clone());
        lease
    }

    /// Another replica claims or renews the Lease by its own clock.
    fn renew(&self, holder: &str, clock: SignedDuration) {
        let mut lease = self.lease().unwrap_or_default();
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some(holder.to_owned());
        spec.lease_duration_seconds = Some(15);
        spec.renew_time = Some(MicroTime(Timestamp::now() + clock));
        self.put(lease);
    }

    fn answer(&self, method: &Method, sent: &[u8]) -> Result<Lease, u16> {
        let stored = self.lease();
        let version = |it: Option<&Lease>| it?.metadata.resource_version.clone();
        match *method {
            Method::GET => stored.ok_or(404),
            _ => {
                let sent: Lease = serde_json::from_slice(sent).unwrap();
                let is_next = version(Some(&sent)) == version(stored.as_ref());
                is_next.then(|| self.put(sent)).ok_or(409)
            }
        }
    }
}

struct Replica {
    leader: Leader,
    /// The API server does not answer it.
    hangs: Arc<AtomicBool>,
    /// How many of its writes meet one of another replica.
    conflicts: Arc<AtomicUsize>,
    heard: Arc<AtomicUsize>,
    token: CancellationToken,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Replica {
    /// Starts a replica that receives so many DNS servers.
    fn start(server: &Server, identity: &str, servers: usize) -> Self {
        let hangs = Arc::<AtomicBool>::default();
        let conflicts = Arc::<AtomicUsize>::default();
        let heard = Arc::new(AtomicUsize::new(servers));
        let parts = (server.clone(), Arc::clone(&hangs), Arc::clone(&conflicts));
        let service = tower::service_fn(move |request: Request<Body>| {
            let (server, hangs, conflicts) = parts.clone();
            async move {
                if hangs.load(Relaxed) {
                    return pending().await;
                }
                let method = request.method().clone();
                let sent = request.into_body().collect().await.unwrap().to_bytes();
                let meets = |left: usize| left.checked_sub(1);
                let answer = if method != Method::GET
                    && conflicts.fetch_update(Relaxed, Relaxed, meets).is_ok()
                {
                    Err(409)
                } else {
                    server.answer(&method, &sent)
                };
                let (code, body) = match answer {
                    Ok(lease) => (200, serde_json::to_string(&lease).unwrap()),
                    Err(code) => (code, json_status(code)),
                };
                let answer = Response::builder().status(code);
                Ok::<_, Infallible>(answer.body(Body::from(body.into_bytes())).unwrap())
            }
        });
        let cluster = Cluster::with_client(kube::Client::new(service, "default"), "test");
        let mut candidate = Candidate::new(&cluster, "default", "test", identity.to_owned());
        let read = Arc::clone(&heard);
        candidate.compare(Box::new(move || read.load(Relaxed)));
        let leadership = Leadership::new(Contest::Lease(Box::new(candidate)));
        let (leader, token) = (leadership.leader(), CancellationToken::new());
        Self {
            leader,
            hangs,
            conflicts,
            heard,
            task: tokio::spawn(leadership.run(token.clone())),
            token,
        }
    }

    /// How long it takes until the replica leads, or does not.
    async fn leads(&mut self, leads: bool) -> Duration {
        let began = Instant::now();
        let changed = async {
            while self.leader.is_leading() != leads {
                self.leader.changed().await;
            }
        };
        timeout(seconds(600), changed).await.expect("a change");
        began.elapsed()
    }

    async fn end(self) {
        self.token.cancel();
        self.task.await.unwrap().unwrap();
    }
}

fn json_status(code: u16) -> String {
    let reason = if code == 404 { "NotFound" } else { "Conflict" };
    serde_json::json!({ "kind": "Status", "code": code, "reason": reason }).to_string()
}

/// Lets two replicas meet in every order.
async fn between_turns() {
    sleep(Duration::from_millis(700)).await;
}

#[tokio::test(start_paused = true)]
async fn lease_that_does_not_exist_is_made_and_renewed() {
    let server = Server::default();
    let mut us = Replica::start(&server, "us", 0);
    us.leads(true).await;
    let spec = || server.lease().unwrap().spec.unwrap();
    let first = spec();
    assert_eq!(first.holder_identity.as_deref(), Some("us"));
    assert_eq!(first.lease_duration_seconds, Some(15));
    let led = timeout(seconds(60), us.leads(false)).await;
    assert!(led.is_err(), "it renews the Lease");
    assert_ne!(spec().renew_time, first.renew_time);
    assert_eq!(spec().acquire_time, first.acquire_time);
    assert_eq!(spec().lease_transitions, Some(1));
}

#[tokio::test(start_paused = true)]
async fn lease_of_a_replica_with_another_clock_is_taken_15_s_after_its_last_renewal() {
    for skew in [-2, 0, 2].map(SignedDuration::from_hours) {
        let server = Server::default();
        server.renew("other", skew);
        let mut us = Replica::start(&server, "us", 0);
        for _ in 0..20 {
            sleep(seconds(2)).await;
            server.renew("other", skew);
            assert!(!us.leader.is_leading(), "{skew}");
        }
        let after = us.leads(true).await;
        assert!(after >= seconds(15) && after <= seconds(18), "{after:?}");
        assert_eq!(server.holder(), "us");
    }
}

#[tokio::test(start_paused = true)]
async fn leader_whose_lease_is_stolen_leads_no_more_and_takes_it_back_when_it_expires() {
    let server = Server::default();
    let mut us = Replica::start(&server, "us", 0);
    us.leads(true).await;
    server.renew("thief", SignedDuration::ZERO);
    let after = us.leads(false).await;
    assert!(after <= RETRY_PERIOD, "{after:?}");
    assert_eq!(server.holder(), "thief");
    let after = us.leads(true).await;
    assert!(after >= seconds(15) && after <= seconds(18), "{after:?}");
    server.renew("thief", SignedDuration::ZERO);
    us.end().await;
    assert_eq!(
        server.holder(),
        "thief",
        "a Lease of another is not released"
    );
}

#[tokio::test(start_paused = true)]
async fn leader_whose_api_server_hangs_stops_before_another_leads() {
    let server = Server::default();
    let mut us = Replica::start(&server, "us", 0);
    us.leads(true).await;
    let mut other = Replica::start(&server, "other", 0);
    between_turns().await;
    us.hangs.store(true, Relaxed);
    let after = us.leads(false).await;
    assert!(after >= seconds(8) && after <= RENEW_DEADLINE, "{after:?}");
    assert!(!other.leader.is_leading());
    let after = other.leads(true).await;
    assert!(after >= seconds(3) && after <= seconds(9), "{after:?}");
    us.hangs.store(false, Relaxed);
    let led = timeout(seconds(60), us.leads(true)).await;
    assert!(led.is_err() && other.leader.is_leading());
    // A release that hangs delays the end by a second.
    other.hangs.store(true, Relaxed);
    let ending = Instant::now();
    other.end().await;
    assert!(ending.elapsed() <= RELEASE_TIMEOUT);
    us.leads(true).await;
}

#[tokio::test(start_paused = true)]
async fn process_that_was_suspended_does_not_lead_after_the_deadline() {
    let server = Server::default();
    let mut us = Replica::start(&server, "us", 0);
    us.leads(true).await;
    us.hangs.store(true, Relaxed);
    advance(RENEW_DEADLINE).await;
    assert!(!us.leader.is_leading());
}

#[tokio::test(start_paused = true)]
async fn leader_that_ends_releases_the_lease_although_a_standby_writes_at_the_same_time() {
    let server = Server::default();
    let mut us = Replica::start(&server, "us", 0);
    us.leads(true).await;
    let mut other = Replica::start(&server, "other", 0);
    sleep(seconds(5)).await;
    us.conflicts.store(3, Relaxed);
    us.end().await;
    assert_eq!(server.holder(), "");
    let after = other.leads(true).await;
    assert!(after <= RETRY_PERIOD, "{after:?}");
    assert_eq!(
        server.lease().unwrap().spec.unwrap().lease_transitions,
        Some(2)
    );
}

#[tokio::test(start_paused = true)]
async fn leader_that_receives_fewer_dns_servers_for_60_s_hands_over_and_pauses_for_30_s() {
    let server = Server::default();
    let mut deaf = Replica::start(&server, "deaf", 2);
    deaf.leads(true).await;
    let mut other = Replica::start(&server, "other", 2);
    let led = timeout(seconds(100), deaf.leads(false)).await;
    assert!(led.is_err(), "it receives as many");
    deaf.heard.store(0, Relaxed);
    let after = deaf.leads(false).await;
    assert!(after >= seconds(60) && after <= seconds(63), "{after:?}");
    assert!(other.leads(true).await <= RETRY_PERIOD);
    // The report of a replica that ended counts for a minute.
    other.task.abort();
    let _aborted = (&mut other.task).await;
    server.renew("", SignedDuration::ZERO);
    let after = deaf.leads(true).await;
    assert!(after >= seconds(26) && after <= seconds(33), "{after:?}");
    let led = timeout(seconds(100), deaf.leads(false)).await;
    assert!(led.is_err());
}

#[tokio::test(start_paused = true)]
async fn free_lease_goes_to_the_standby_that_reported_most_dns_servers() {
    let each = [([1, 2], "two"), ([2, 1], "one")];
    for ((servers, first), is_killed) in each
        .map(|it| [(it, false), (it, true)])
        .into_iter()
        .flatten()
    {
        let server = Server::default();
        let mut us = Replica::start(&server, "us", 2);
        us.leads(true).await;
        let mut standbys = Vec::new();
        for (name, servers) in ["one", "two"].into_iter().zip(servers) {
            between_turns().await;
            standbys.push(Replica::start(&server, name, servers));
        }
        sleep(seconds(5)).await;
        if is_killed {
            us.task.abort();
            sleep(RETRY_PERIOD + LEASE_DURATION).await;
        } else {
            us.end().await;
            // A stream that opens now has missed the answers before.
            standbys.iter().for_each(|it| it.heard.store(9, Relaxed));
        }
        sleep(RETRY_PERIOD).await;
        assert_eq!(server.holder(), first);
    }
}
