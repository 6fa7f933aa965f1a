use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use proto::api::DnsName;
use runtime::{clock::Timestamp, listen::ListenAddress, store::ObjectKey};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    task::JoinHandle,
};

use super::*;
use crate::{
    corefile::{
        Finding,
        live::{self, LiveView},
    },
    failure::Failure,
    flush::plan::BlockState,
    namespaces::NamespaceQuota,
    objects::{Evictions, NameView, NamespaceShare, View},
    pods::{PodView, Whose},
    rules::validation::{Fault, Faults},
    state::FailureView,
};

const HOSTILE: &str = "<script>alert(1)</script>\"'&";

fn key(name: &str) -> ObjectKey {
    ObjectKey {
        namespace: "ovn".to_owned(),
        name: name.to_owned(),
    }
}

fn name_view(name: &str) -> NameView {
    NameView {
        name: DnsName::parse(name).unwrap(),
        objects: vec![key("dns-1")],
        allowed: true,
        denied: false,
        held: false,
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
        namespaces: vec![NamespaceShare {
            namespace: HOSTILE.into(),
            used: NamespaceQuota {
                addresses: 19_990,
                names: 12,
            },
            quota: NamespaceQuota {
                addresses: 20_000,
                names: 10_000,
            },
            is_closed: true,
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
        egress_firewalls: 2,
        faults: BTreeMap::from([(key("default"), faults)]),
        undecodable: [key("broken")].into(),
        dns: Default::default(),
    }
}

/// Sources with a controller that answers with this view.
fn sources(names: Vec<NameView>) -> InspectSources {
    let (controller, mut questions) = mpsc::channel(QUEUE);
    tokio::spawn(async move {
        while let Some(question) = questions.recv().await {
            if let InspectRequest::View(viewer) = question {
                let _ = viewer.send(view(names.clone()));
            }
        }
    });
    let health = Health::new();
    health.gate("store-writes", HOSTILE);
    InspectSources {
        overview: watch::channel(Arc::new(overview())).1,
        health,
        blocks: watch::channel(Arc::new(blocks())).1,
        corefiles: vec![watch::channel(Some(corefile())).1],
        pods: watch::channel(Some(Arc::new(pods()))).1,
        dns_servers: Some(dns_servers()),
        ..sources_of(controller)
    }
}

fn sources_of(controller: mpsc::Sender<InspectRequest>) -> InspectSources {
    InspectSources {
        controller,
        rules: mpsc::channel(1).0,
        wanted: watch::channel(Wanted::default()).1,
        recent: EventHistory::default(),
        remembered: AnswerCache::default(),
        new_names: crate::new_names::NewNames::default(),
        peers: observe::PeerIds::default(),
        connections: connections(),
        clock: Clock::manual(Timestamp::from_millis(1_800_000_000_000)),
        overview: watch::channel(Arc::default()).1,
        taps: CaptureSubscribers::default(),
        health: Health::new(),
        bad_objects: BadObjects::default(),
        blocks: watch::channel(Arc::default()).1,
        corefiles: Vec::new(),
        pods: watch::channel(None).1,
        dns_servers: None,
    }
}

/// One DNS server is refused.
fn dns_servers() -> DnsServers {
    let (listed, networks) = (watch::channel(None).1, watch::channel(None).1);
    let servers = DnsServers::new(listed, networks);
    servers.refuse([198, 51, 100, 53].into());
    servers
}

fn corefile() -> LiveView {
    LiveView {
        config_map: "kube-system/coredns".parse().unwrap(),
        state: live::CorefileState::Read {
            findings: vec![Finding {
                line: 7,
                is_fault: true,
                words: HOSTILE.to_owned(),
            }],
        },
    }
}

fn connections() -> ConnectionTable {
    let limits = observe::MaxConnections {
        connections: 1,
        of_peer: 1,
        frames_per_second: 0,
    };
    ConnectionTable::new(limits, observe::queue::channel(1 << 20).0)
}

fn pods() -> PodsView {
    PodsView {
        counts: [(Whose::Foreign, 1)].into(),
        pods: vec![PodView {
            pod: "team/a".parse().unwrap(),
            whose: Whose::Foreign,
            servers: vec!["192.0.2.9".to_owned()],
        }],
    }
}

fn blocks() -> Vec<BlockView> {
    vec![BlockView {
        server: "10.0.0.1:53".parse().unwrap(),
        name: "flush.cluster.local.".to_owned(),
        state: BlockState::NotReporting,
        streams: 0,
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

/// A server with a controller that has these names.
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

/// The page and the JSON.
async fn shown(names: Vec<NameView>) -> (String, serde_json::Value) {
    let served = Served::start(names).await;
    let socket = &served.socket;
    let page = get(socket, "/").await;
    let json = get(socket, "/status.json").await;
    assert!(get(socket, "/metrics").await.starts_with("HTTP/1.0 404"));
    served.end().await;
    let (_, body) = json.split_once("\r\n\r\n").unwrap();
    (page, serde_json::from_str(body).unwrap())
}

/// Paused time advances only while no task can run.
#[tokio::test(start_paused = true)]
async fn a_subscriber_that_stops_reading_is_dropped_and_a_capture_ends_on_time() {
    // More than the buffers of a socket hold.
    let names = (0..5_000).map(|i| name_view(&format!("n{i}.example.com")));
    let served = Served::start(names.collect()).await;
    let (start, socket) = (Instant::now(), served.socket.clone());
    let capture = tokio::spawn(async move { get(&socket, "/capture/60000/1000").await });
    let mut stalled = Vec::new();
    for _ in 0..8 {
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

fn troubled() -> NameView {
    NameView {
        denied: true,
        failing: 12,
        failures: vec![FailureView {
            name: DnsName::parse("a.example.com").unwrap(),
            failures: 4,
            failure: Some(Failure::NXDOMAIN),
        }],
        evictions: Evictions {
            addresses: 0,
            names: 9,
        },
        ..name_view("*.example.com")
    }
}

#[tokio::test]
async fn a_deny_rule_that_cannot_hold_all_addresses_says_that_they_are_open() {
    let lost = |denied| NameView {
        denied,
        full: denied,
        evictions: Evictions {
            addresses: 5,
            names: 0,
        },
        ..name_view("www.example.com")
    };
    let open = "the latest addresses were left out, and traffic to them is not blocked (5 times)";
    let (page, json) = shown(vec![lost(true)]).await;
    assert!(page.contains(open), "{page}");
    assert_eq!(json["names"][0]["full"], true);
    let (page, json) = shown(vec![lost(false)]).await;
    assert!(page.contains("5 addresses left out"), "{page}");
    assert!(!page.contains("is open"), "{page}");
    assert_eq!(json["names"][0]["full"], false);
}

#[tokio::test]
async fn the_page_and_the_json_say_what_is_wrong_and_what_is_known() {
    let (page, json) = shown(vec![name_view("www.example.com"), troubled()]).await;
    for part in [
        "This replica leads",
        "NameRefused",
        "DenyRuleByName",
        "ovn/broken",
        "www.example.com.",
        "ovn/dns-1",
        "in 12 s",
        "a.example.com.: NXDOMAIN, 4 look-ups failed",
        "11 more names cannot be looked up",
        "9 names left out",
        "19990 of 20000",
        "new names under wildcards are left out",
        "7 addresses",
        "Allow, Deny",
        "<td>198.51.100.53</td><td class=\"bad\">a DNS server on the host network",
    ] {
        assert!(page.contains(part), "{part:?} is missing in {page}");
    }
    // The name with trouble comes first.
    let place = |text: &str| page.find(text).unwrap();
    assert!(place(">*.example.com.</a>") < place(">www.example.com.</a>"));

    assert_eq!(json["leader"], true);
    assert_eq!(json["at"], "2027-01-15T08:00:00Z");
    assert_eq!(json["conditions"][0]["name"], "store-writes");
    assert_eq!(json["faults"][0]["reason"], "NameRefused");
    assert_eq!(json["unknownEgressFirewalls"][0], "ovn/broken");
    let [www, wildcard] = [&json["names"][0], &json["names"][1]];
    assert_eq!(www["nextLookup"], "2027-01-15T08:00:12Z");
    assert_eq!(www["addresses"], 3);
    assert_eq!(wildcard["failures"][0]["degraded"], "NXDOMAIN");
    assert_eq!(wildcard["evictions"]["names"], 9);
    assert_eq!(json["evictions"]["addresses"], 7);
    let namespace = &json["namespacesOverLimit"][0];
    assert_eq!(namespace["quota"]["addresses"], 20_000);
    assert_eq!(namespace["newNamesLeftOut"], true);
    let refused = &json["refusedDnsServers"][0];
    assert_eq!(refused["server"], "198.51.100.53");
    assert_eq!(refused["reason"], "host_network");
    let words = refused["words"].as_str().unwrap();
    assert!(words.contains("tls://") && words.contains("--insecure-host-network"));
}

#[tokio::test]
async fn what_others_wrote_is_escaped_and_the_page_has_no_script() {
    let (page, json) = shown(Vec::new()).await;
    assert!(!page.contains("<script"), "{page}");
    let escaped = "&lt;script&gt;alert(1)&lt;/script&gt;&quot;'&amp;";
    assert_eq!(page.matches(escaped).count(), 4, "{page}");
    let headers = page.to_ascii_lowercase();
    for header in [
        "content-type: text/html; charset=utf-8\r\n",
        "content-security-policy: default-src 'none'; ",
        "x-content-type-options: nosniff\r\n",
    ] {
        assert!(headers.contains(header), "{header:?} is missing in {page}");
    }
    assert!(page.contains("<td>192.0.2.9</td>"), "{page}");
    assert_eq!(json["pods"]["nameServers"]["foreign"], 1);
    assert_eq!(json["pods"]["pods"][0]["pod"], "team/a");
    assert_eq!(json["faults"][0]["subjects"][0], HOSTILE);
}

#[tokio::test]
async fn the_page_has_a_bounded_number_of_names_and_the_json_has_all() {
    let mut names: Vec<_> = (0..1_500)
        .map(|i| name_view(&format!("n{i:04}.example.com")))
        .collect();
    names.push(troubled());
    let (page, json) = shown(names).await;
    assert_eq!(page.matches("about=n").count(), 499);
    assert!(page.contains(">*.example.com.</a>"));
    assert!(page.contains("1501 names, page 1 of 4"), "{page}");
    assert_eq!(json["names"].as_array().unwrap().len(), 1_501);
}

#[test]
fn a_filter_finds_names_in_any_case_and_its_pages_follow_each_other() {
    let names = (0..100_000).map(|i| name_view(&format!("n{i:05}.example.com")));
    let sources = sources_of(mpsc::channel(1).0);
    let status = Status::new(view(names.collect()), &sources);
    let render = |filter: &str, page| {
        let filter = filter.to_owned();
        pages::render(&status, &pages::Shown { filter, page })
    };
    let of = |page: &str| page.matches("<tr><td><a href=\"/explain").count();
    let found = render("N0001", 1);
    assert!(
        found.contains("10 names, page 1 of 1") && of(&found) == 10,
        "{found}"
    );
    assert!(found.contains("value=\"N0001\""));
    for (number, previous, next) in [
        (0, false, true),
        (2, true, true),
        (200, true, false),
        (999, true, false),
    ] {
        let page = render("", number);
        assert_eq!(of(&page), 500);
        assert_eq!(
            (page.contains(">previous<"), page.contains(">next<")),
            (previous, next)
        );
        assert!(page.len() < 300_000, "{}", page.len());
    }
    let hostile = render("\"><script>&page=9", 1);
    assert!(hostile.contains("0 names, page 1 of 1") && !hostile.contains("<script"));
    assert!(
        hostile.contains("value=\"&quot;&gt;&lt;script&gt;&amp;page=9\""),
        "{hostile}"
    );
}

fn inspector(controller: mpsc::Sender<InspectRequest>) -> Inspector {
    Inspector {
        sources: sources_of(controller),
        shown: Mutex::default(),
        pacer: QueryPacer::default(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_does_not_say_is_waited_for_five_seconds() {
    let (controller, questions) = mpsc::channel(QUEUE);
    let inspector = inspector(controller);
    let start = Instant::now();
    assert!(inspector.status().await.is_none());
    assert_eq!(start.elapsed(), ANSWER_DEADLINE);
    // A controller that has ended is not waited for.
    drop(questions);
    assert!(inspector.status().await.is_none());
    assert_eq!(start.elapsed(), ANSWER_DEADLINE);
}

#[tokio::test(start_paused = true)]
async fn many_who_look_ask_the_controller_once_a_second() {
    let (controller, mut questions) = mpsc::channel(QUEUE);
    let inspector = Arc::new(inspector(controller));
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
        tokio::time::sleep(FRESH).await;
    }
    drop(inspector);
    assert_eq!(counting.await.unwrap(), 3);
}
