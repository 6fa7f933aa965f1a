use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use proto::{
    api::DnsName,
    facts::{CapFacts, FailingName},
};
use runtime::{clock::Timestamp, listen::ListenAddress, store::ObjectKey};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    task::JoinHandle,
};

use super::*;
use crate::{
    flush::BlockState,
    publish::{NameView, View},
    rules::{
        BySource,
        validation::{Fault, Faults},
    },
};
use ::names::Evictions;

const HOSTILE: &str = "<script>alert(1)</script>\"'&";

fn key(name: &str) -> ObjectKey {
    ObjectKey {
        namespace: "ovn".to_owned(),
        name: name.to_owned(),
    }
}

pub(super) fn name_view(name: &str) -> NameView {
    NameView {
        name: DnsName::parse(name).unwrap(),
        objects: vec![key("dns-1")],
        allowed: true,
        denied: false,
        left_out: false,
        full: false,
        names: 1,
        addresses: 3,
        next_lookup: Some(Timestamp::from_millis(1_800_000_012_000)),
        fruitless_lookups: 0,
        failing: 0,
        failures: Vec::new(),
        evictions: Evictions::default(),
        failed_writes: 0,
    }
}

fn view(names: Vec<NameView>) -> View {
    View {
        at: Timestamp::from_millis(1_800_000_000_000),
        leader: true,
        evictions: Evictions {
            addresses: 7,
            names: 0,
        },
        lookups: 2,
        namespaces: vec![CapFacts {
            namespace: HOSTILE.into(),
            names_left_out: 12,
            addresses: 19_990,
        }],
        names,
    }
}

fn overview() -> Overview {
    let mut faults = Faults::default();
    faults.add(Fault::NameRefused, HOSTILE);
    faults.add(Fault::DenyRuleByName, "www.example.com.");
    Overview {
        out_of_sync: None,
        objects: 2,
        faults: BTreeMap::from([(key("default"), faults)]),
        undecodable: [key("broken")].into(),
    }
}

/// Sources with a publisher that answers with this view.
fn sources(names: Vec<NameView>) -> InspectSources {
    let (publisher, mut questions) = mpsc::channel(QUEUE);
    tokio::spawn(async move {
        while let Some(question) = questions.recv().await {
            if let InspectRequest::View(viewer) = question {
                let _ = viewer.send(view(names.clone()));
            }
        }
    });
    sources_with(publisher)
}

/// Sources with faults.
fn sources_with(publisher: mpsc::Sender<InspectRequest>) -> InspectSources {
    let health = Health::new();
    health.gate("store-writes", HOSTILE);
    let sources = sources_of(publisher);
    InspectSources {
        rules: RuleSources {
            overview: watch::channel(Arc::new(overview()).into()).1,
            ..sources.rules
        },
        dns: DnsSources {
            blocks: watch::channel(Arc::new(blocks())).1,
        },
        health,
        ..sources
    }
}

/// The status of these names, with a fault of each kind beside them.
pub(super) fn status_of(names: Vec<NameView>) -> Status {
    with_problems(view(names), &sources_with(mpsc::channel(1).0))
}

fn sources_of(publisher: mpsc::Sender<InspectRequest>) -> InspectSources {
    InspectSources {
        publisher,
        rules: RuleSources {
            tasks: vec![mpsc::channel(1).0],
            overview: watch::channel(BySource::default()).1,
        },
        dns: DnsSources {
            blocks: watch::channel(Arc::default()).1,
        },
        remembered: AnswerCache::default(),
        peers: crate::listen::PeerIds::default(),
        connections: connections(),
        instance: Instance::default(),
        clock: Clock::manual(Timestamp::from_millis(1_800_000_000_000)),
        captures: CaptureSubscribers::default(),
        new_addresses: NewAddresses::default(),
        health: Health::new(),
        bad_objects: BadObjects::default(),
    }
}

fn connections() -> ConnectionTable {
    ConnectionTable::new(crate::matching::queue::channel(1 << 20).0)
}

fn blocks() -> Vec<BlockView> {
    vec![BlockView {
        server: "10.0.0.1:53".parse().unwrap(),
        name: "flush.cluster.local.".to_owned(),
        state: BlockState::NotStreaming,
        reported: Some(Duration::from_secs(31)),
        delay: Some(Duration::from_micros(1_500)),
        rcode: Some(5),
    }]
}

async fn get(socket: &Path, path: &str) -> String {
    let mut stream = UnixStream::connect(socket).await.unwrap();
    let request = format!("GET {path} HTTP/1.0\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// A server with a publisher that has these names.
struct Served {
    socket: PathBuf,
    _folder: TempDir,
    token: CancellationToken,
    serving: JoinHandle<anyhow::Result<()>>,
}

impl Served {
    async fn start(names: Vec<NameView>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("x.sock");
        let address = ListenAddress::Unix(socket.clone().into());
        let inspect = Inspect::bind(&address).await.unwrap();
        let token = CancellationToken::new();
        let serving = tokio::spawn(serve(inspect, sources(names), token.clone()));
        Self {
            socket,
            _folder: folder,
            token,
            serving,
        }
    }

    async fn end(self) {
        self.token.cancel();
        self.serving.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn page_and_json_are_served_and_may_run_only_what_server_has() {
    let served = Served::start(vec![name_view("www.example.com")]).await;
    let page = get(&served.socket, "/").await;
    let json = get(&served.socket, "/status.json").await;
    let refused = get(&served.socket, "/names.json?after=%20a").await;
    let metrics = get(&served.socket, "/metrics").await;
    served.end().await;
    assert!(page.contains("<!DOCTYPE html>"), "{page}");
    for answer in [&page, &json] {
        for header in [
            "content-security-policy: default-src 'none'; script-src 'self'; ",
            "x-content-type-options: nosniff\r\n",
            "cache-control: no-store\r\n",
        ] {
            assert!(answer.contains(header), "{header:?} is missing in {answer}");
        }
    }
    assert!(json.contains(r#""program":"collector""#), "{json}");
    assert!(refused.starts_with("HTTP/1.0 400"), "{refused}");
    assert!(metrics.starts_with("HTTP/1.0 404"), "{metrics}");
}

#[test]
fn status_says_what_is_wrong_and_what_is_known() {
    let troubled = NameView {
        failing: 12,
        failures: vec![FailingName {
            name: DnsName::parse("a.example.com").unwrap(),
            failures: 4,
            reason: Some("NXDOMAIN".to_owned()),
        }],
        evictions: Evictions {
            addresses: 0,
            names: 9,
        },
        ..name_view("*.example.com")
    };
    let status = status_of(vec![name_view("www.example.com"), troubled]);
    let json = serde_json::to_value(&status).unwrap();
    assert_eq!(json["leader"], true);
    assert_eq!(json["at"], "2027-01-15T08:00:00Z");
    assert_eq!(json["problems"].as_array().unwrap().len(), 5);
    assert_eq!(json["conditions"][0]["name"], "store-writes");
    assert_eq!(json["faults"][0]["reason"], "NameRefused");
    assert_eq!(json["faults"][0]["subjects"][0], HOSTILE);
    assert_eq!(json["rules"][0]["unknown"][0], "ovn/broken");
    let [www, wildcard] = [&json["names"][0], &json["names"][1]];
    assert_eq!(www["nextLookup"], "2027-01-15T08:00:12Z");
    assert_eq!(www["addresses"], 3);
    assert_eq!(wildcard["failures"][0]["reason"], "NXDOMAIN");
    assert_eq!(wildcard["evictions"]["names"], 9);
    assert_eq!(json["evictions"]["addresses"], 7);
    let namespace = &json["namespacesAtCap"][0];
    assert_eq!(namespace["addresses"], 19_990);
    assert_eq!(namespace["namesLeftOut"], 12);
}

/// Paused time advances only while no task can run.
#[tokio::test(start_paused = true)]
async fn stalled_subscriber_is_dropped_and_a_capture_ends_on_time() {
    // More than the buffers of a socket hold.
    let names = (0..5_000).map(|i| name_view(&format!("n{i}.example.com")));
    let served = Served::start(names.collect()).await;
    let (start, socket) = (Instant::now(), served.socket.clone());
    let capture = tokio::spawn(async move { get(&socket, "/capture/60000/1000").await });
    let mut stalled = Vec::new();
    for _ in 0..12 {
        let mut stream = UnixStream::connect(&served.socket).await.unwrap();
        let request = b"GET /status.json HTTP/1.0\r\n\r\n";
        stream.write_all(request).await.unwrap();
        stalled.push(stream);
    }
    let page = get(&served.socket, "/").await;
    assert!(page.starts_with("HTTP/1.0 200"), "{page}");
    assert_eq!(start.elapsed().as_secs(), 20);
    let capture = capture.await.unwrap();
    assert!(
        capture.ends_with("\0\0\0\0\0\0\0\x04\0\0\0\x03"),
        "{capture:?}"
    );
    assert_eq!(start.elapsed().as_secs(), 60);
    served.end().await;
}

fn inspector(publisher: mpsc::Sender<InspectRequest>) -> Inspector {
    Inspector {
        sources: sources_of(publisher),
        shown: Mutex::default(),
        pacer: QueryPacer::default(),
    }
}

#[tokio::test(start_paused = true)]
async fn controller_that_does_not_say_is_waited_for_five_seconds() {
    let (publisher, questions) = mpsc::channel(QUEUE);
    let inspector = inspector(publisher);
    let start = Instant::now();
    assert!(inspector.status().await.is_none());
    assert_eq!(start.elapsed(), ANSWER_DEADLINE);
    // A publisher that has ended is not waited for.
    drop(questions);
    assert!(inspector.status().await.is_none());
    assert_eq!(start.elapsed(), ANSWER_DEADLINE);
}

#[tokio::test(start_paused = true)]
async fn many_who_look_ask_the_controller_once_a_second() {
    let (publisher, mut questions) = mpsc::channel(QUEUE);
    let inspector = Arc::new(inspector(publisher));
    let counting = tokio::spawn(async move {
        let mut asked = 0;
        while let Some(InspectRequest::View(viewer)) = questions.recv().await {
            asked += 1;
            viewer.send(view(Vec::new())).unwrap();
        }
        asked
    });
    for _ in 0..3 {
        let many = (0..100).map(|_| {
            let inspector = Arc::clone(&inspector);
            tokio::spawn(async move { assert!(inspector.status().await.is_some()) })
        });
        for one in Vec::from_iter(many) {
            one.await.unwrap();
        }
        tokio::time::sleep(REUSED_FOR).await;
    }
    drop(inspector);
    assert_eq!(counting.await.unwrap(), 3);
}
