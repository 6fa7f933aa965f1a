use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use axum::Router;
use proto::facts::{CollectorFacts, Problem, Problems};
use runtime::{clock::Timestamp, inspect::Inspect, listen::ListenAddress, store::ObjectKey};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
};
use tokio_util::sync::CancellationToken;

use super::{captures::refused, *};
use crate::{
    publish::{
        NamesStatus,
        guards::{CurrentGuards, Guards},
    },
    rules::validation::{Fault, Faults},
};

const HOSTILE: &str = "<script>alert(1)</script>\"'&";

fn overview() -> Overview {
    let key = |name: &str| ObjectKey {
        namespace: "ovn".to_owned(),
        name: name.to_owned(),
    };
    let mut faults = Faults::default();
    faults.add(Fault::NameRefused, HOSTILE);
    Overview {
        out_of_sync: None,
        objects: 2,
        faults: BTreeMap::from([(key("default"), faults)]),
        undecodable: [key("broken")].into(),
    }
}

/// A publisher that answers with a problem of its own, and with so many names that fill a socket.
fn publisher() -> mpsc::Sender<InspectRequest> {
    let (publisher, mut questions) = mpsc::channel(QUEUE);
    tokio::spawn(async move {
        while let Some(question) = questions.recv().await {
            let InspectRequest::Status(query, sender) = question else {
                continue;
            };
            let mut problems = Problems::default();
            problems.extend([Problem::fault("NoAddress", "a.test.", query.path(), "wait")]);
            let name = ::proto::api::DnsName::parse("without-a-rule.test").unwrap();
            let facts = CollectorFacts {
                names_without_rule: vec![name; 20_000],
                ..CollectorFacts::default()
            };
            let _ = sender.send(NamesStatus {
                leader: true,
                problems,
                facts,
            });
        }
    });
    publisher
}

fn sources(publisher: mpsc::Sender<InspectRequest>) -> InspectSources {
    let process = Process::default();
    process.health.gate("store-writes", HOSTILE);
    let connections = crate::matching::queue::channel(1 << 20).0;
    InspectSources {
        process,
        publisher,
        rules: RuleSources {
            tasks: vec![mpsc::channel(1).0],
            overview: watch::channel(Arc::new(overview()).into()).1,
        },
        blocks: watch::channel(Arc::new(vec![BlockView {
            server: "10.0.0.1:53".parse().unwrap(),
            name: "flush.cluster.local.".to_owned(),
            state: proto::facts::StreamState::NotStreaming,
            reported: Some(Duration::from_secs(31)),
            delay: None,
            rcode: Some(5),
        }]))
        .1,
        remembered: AnswerCache::default(),
        index: SharedIndex::default(),
        guards: guards(),
        peers: PeerIds::default(),
        connections: ConnectionTable::new(connections),
        clock: Clock::manual(Timestamp::from_millis(1_800_000_000_000)),
        new_addresses: NewAddresses::default(),
        hold: None,
        pacer: QueryPacer::default(),
    }
}

#[tokio::test]
async fn status_has_the_problems_of_all_parts_the_clusters_first() {
    let sources = sources(publisher());
    let status = sources.status(Query::all()).await.unwrap().unwrap();
    let codes: Vec<_> = status.problems.listed.iter().map(|it| &*it.code).collect();
    let expected = [
        "Condition",
        "DnsServerSendsNoDnstap",
        "NameRefused",
        "NoAddress",
    ];
    assert_eq!(codes, expected);
    assert!(status.head.leader);
    let json = serde_json::to_value(&status).unwrap();
    assert_eq!(json["now"], "2027-01-15T08:00:00Z");
    let collector = &json["collector"];
    assert_eq!(collector["streams"][0]["state"], "not_streaming");
    assert_eq!(collector["sources"][0]["unknown"][0], "ovn/broken");
    let wrong = Query {
        after: Some(" a".to_owned()),
        ..Query::all()
    };
    assert!(sources.status(wrong).await.is_err());
}

fn guards() -> CurrentGuards {
    CurrentGuards {
        guards: Guards::default(),
        networks: watch::channel(None).1,
    }
}

/// A server.
struct Served {
    socket: PathBuf,
    _folder: TempDir,
}

impl Served {
    async fn start(captures: Router) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("x.sock");
        let address = ListenAddress::Unix(socket.clone().into());
        let inspect = Inspect::bind(&address).await.unwrap();
        let token = CancellationToken::new();
        tokio::spawn(inspect.serve(sources(publisher()), captures, token));
        Self {
            socket,
            _folder: folder,
        }
    }
}

async fn get(socket: &Path, path: &str) -> String {
    let mut stream = UnixStream::connect(socket).await.unwrap();
    let request = format!("GET {path} HTTP/1.0\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn taps_that_are_off_are_refused_and_all_else_is_served() {
    let served = Served::start(refused()).await;
    for path in ["/capture/1/1", "/answers/1"] {
        let answer = get(&served.socket, path).await;
        assert!(answer.starts_with("HTTP/1.0 403"), "{answer}");
        assert!(answer.contains("tap=false"), "{answer}");
    }
    let status = get(&served.socket, "/status.json").await;
    assert!(status.starts_with("HTTP/1.0 200"), "{status}");
}
