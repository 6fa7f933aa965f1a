use std::collections::BTreeMap;

use proto::facts::{CollectorFacts, Problem, Problems};
use runtime::{clock::Timestamp, store::ObjectKey};
use tokio::time::Instant;

use super::*;
use crate::{
    publish::NamesStatus,
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
        peers: PeerIds::default(),
        connections: ConnectionTable::new(connections),
        clock: Clock::manual(Timestamp::from_millis(1_800_000_000_000)),
        new_addresses: NewAddresses::default(),
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

#[tokio::test(start_paused = true)]
async fn publisher_that_does_not_answer_is_waited_for_five_seconds() {
    let (publisher, questions) = mpsc::channel(QUEUE);
    let sources = sources(publisher);
    let start = Instant::now();
    assert_eq!(sources.status(Query::all()).await, Ok(None));
    assert_eq!(start.elapsed(), ANSWER_DEADLINE);
    // A publisher that has ended is not waited for.
    drop(questions);
    assert_eq!(sources.status(Query::all()).await, Ok(None));
    assert_eq!(start.elapsed(), ANSWER_DEADLINE);
}
