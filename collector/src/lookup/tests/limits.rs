//! Limits: the servers queried, the time-outs, and the number of queries at once.

use tokio::net::UdpSocket;

use super::*;

#[tokio::test]
async fn with_nothing_or_one_known_one_server_is_asked() {
    let servers = [good().await, good().await, good().await];
    for known in [0, 1] {
        let list: Vec<_> = servers.iter().map(Scripted::server).collect();
        let mut resolving = Resolving::start(patient(), &list);
        resolving.look_up("www.example.com", known).await;
        resolving.end().await;
    }
    let asked: usize = servers.iter().map(|server| server.asked().len()).sum();
    assert_eq!(asked, 4, "two families, twice");
}

/// Servers that each have an address of their own.
async fn rotating(count: usize) -> Vec<Scripted> {
    let mut servers = Vec::new();
    for i in 1..=count {
        let (v4, v6) = (format!("192.0.2.{i}"), format!("2001:db8::{i}"));
        let script = move |asked: &Asked| asked.addresses(&[&v4, &v6], 30).say();
        servers.push(Scripted::start(script).await);
    }
    servers
}

#[tokio::test]
async fn with_more_known_the_union_of_five_servers_counts() {
    let servers = rotating(7).await;
    let list: Vec<_> = servers.iter().map(Scripted::server).collect();
    let mut resolving = Resolving::start(patient(), &list);
    let mut seen = BTreeMap::new();
    for _ in 0..20 {
        let result = resolving.look_up("www.example.com", 2).await;
        assert_eq!(found(&result.v6).len(), 5);
        let v4 = found(&result.v4);
        assert_eq!(v4.len(), 5);
        for (address, _) in v4 {
            *seen.entry(address).or_insert(0) += 1;
        }
    }
    assert_eq!(seen.len(), 7, "the five are chosen at random: {seen:?}");
    resolving.end().await;
}

#[tokio::test]
async fn addresses_of_one_server_win_over_the_nxdomain_of_another() {
    let servers = [saying(ResponseCode::NXDomain).await, good().await];
    let list: Vec<_> = servers.iter().map(Scripted::server).collect();
    let mut resolving = Resolving::start(patient(), &list);
    for _ in 0..10 {
        let result = resolving.look_up("www.example.com", 2).await;
        assert_eq!(found(&result.v4), [(A.to_owned(), 30)]);
        assert_eq!(result.failed(), None);
    }
    resolving.end().await;
}

#[tokio::test]
async fn nxdomain_is_an_answer_and_servfail_is_tried_elsewhere() {
    for (code, others) in [(ResponseCode::NXDomain, 0), (ResponseCode::ServFail, 2)] {
        let (bad, worse) = (saying(code).await, saying(code).await);
        let mut resolving = Resolving::start(patient(), &[bad.server(), worse.server()]);
        let result = resolving.look_up("www.example.com", 0).await;
        assert!(result.failed().is_some());
        assert_eq!(bad.asked().len() + worse.asked().len(), 2 + others);
        resolving.end().await;
    }
}

#[tokio::test]
async fn not_every_server_is_asked_for_a_name_that_is_broken() {
    let mut servers = Vec::new();
    for _ in 0..6 {
        servers.push(saying(ResponseCode::ServFail).await);
    }
    let list: Vec<_> = servers.iter().map(Scripted::server).collect();
    let result = look_up(patient(), &list).await;
    assert_eq!(result.failed().unwrap().reason(), "SERVFAIL");
    let asked: usize = servers.iter().map(|server| server.asked().len()).sum();
    assert_eq!(asked, 6, "three servers for each family");
}

#[tokio::test]
async fn lost_datagram_is_sent_again() {
    let lost = std::sync::Mutex::new(std::collections::BTreeSet::new());
    let server = Scripted::start(move |asked| {
        if lost.lock().unwrap().insert(asked.is_v6()) {
            Vec::new()
        } else {
            asked.addresses(&[A, AAAA], 30).say()
        }
    })
    .await;
    let config = Config {
        resend: Duration::from_millis(100),
        ..patient()
    };
    let result = look_up(config, &[server.server()]).await;
    assert_eq!(found(&result.v4), [(A.to_owned(), 30)]);
    assert_eq!(found(&result.v6), [(AAAA.to_owned(), 30)]);
    let asked = server.asked();
    assert_eq!(asked.len(), 4);
    let mut ports: Vec<_> = asked.iter().map(|asked| asked.from.port()).collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 4, "each sending has a port of its own");
}

/// A port without a DNS server, which no other process can take while the socket lives: it is
/// connected to one peer.
async fn nobody() -> (Server, UdpSocket) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect("127.0.0.1:1").await.unwrap();
    (Server::udp(socket.local_addr().unwrap()), socket)
}

#[tokio::test]
async fn where_nobody_listens_another_is_asked_at_once() {
    let server = good().await;
    let nobody = [nobody().await, nobody().await];
    let list = [nobody[0].0, nobody[1].0, server.server()];
    let mut resolving = Resolving::start(patient(), &list);
    for _ in 0..10 {
        let result = resolving.look_up("www.example.com", 0).await;
        assert_eq!(found(&result.v4), [(A.to_owned(), 30)]);
    }
    resolving.end().await;
}

#[tokio::test]
async fn only_server_is_asked_even_if_it_was_away() {
    let (nobody, _socket) = nobody().await;
    let mut resolving = Resolving::start(hasty(), &[nobody]);
    let result = resolving.look_up("www.example.com", 0).await;
    let refused = Failure::Network(std::io::ErrorKind::ConnectionRefused);
    assert_eq!(result.failed(), Some(refused));

    let silent = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let still_silent = Arc::clone(&silent);
    let server = Scripted::start(move |asked| {
        if still_silent.load(std::sync::atomic::Ordering::SeqCst) {
            return Vec::new();
        }
        asked.addresses(&[A], 30).say()
    })
    .await;
    resolving.servers.send_replace([server.server()].into());
    while server.asked().is_empty() {
        let result = resolving.look_up("www.example.com", 0).await;
        assert!(result.failed().is_some());
    }
    silent.store(false, std::sync::atomic::Ordering::SeqCst);
    let result = resolving.look_up("www.example.com", 0).await;
    assert_eq!(found(&result.v4), [(A.to_owned(), 30)]);
    resolving.end().await;
}

#[tokio::test]
async fn server_that_refuses_tcp_is_still_asked_over_udp() {
    let no_tcp = Scripted::without_tcp(|asked| {
        let mut reply = asked.addresses(&["192.0.2.2"], 30);
        reply.metadata.truncation = asked.name().starts_with("big");
        reply.say()
    })
    .await;
    let server = good().await;
    let mut resolving = Resolving::start(patient(), &[no_tcp.server(), server.server()]);
    for name in ["big.example.com", "www.example.com"] {
        let result = resolving.look_up(name, 2).await;
        assert_eq!(found(&result.v4).len(), 2, "{name}");
    }
    resolving.end().await;
}

#[tokio::test]
async fn black_hole_delays_no_other_name_and_is_soon_left_alone() {
    let alive = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let is_alive = Arc::clone(&alive);
    let hole = Scripted::start(move |asked| {
        if !is_alive.load(std::sync::atomic::Ordering::SeqCst) {
            return Vec::new();
        }
        asked.addresses(&[A, AAAA], 30).say()
    })
    .await;
    let server = good().await;
    let config = Config {
        resend: Duration::from_secs(3),
        silence: Duration::from_secs(3),
        timeout: Duration::from_secs(6),
        remaining_wait: Duration::from_secs(5),
        total: Duration::from_secs(20),
        per_server: 1000,
        ..Config::default()
    };
    let (quick, silence_ends) = (config.resend / 2, config.timeout - config.resend / 2);
    let mut resolving = Resolving::start(config, &[hole.server(), server.server()]);
    let mut look_up_all = async |known: usize| {
        for i in 0..100 {
            let name = format!("host{i}.example.com");
            resolving.request(&name, known).await;
        }
        let mut late = BTreeSet::new();
        for _ in 0..100 {
            let result = resolving.result().await;
            assert_eq!(found(&result.v4), [(A.to_owned(), 30)]);
            assert_eq!(found(&result.v6), [(AAAA.to_owned(), 30)]);
            assert!(result.duration() < silence_ends, "moved once it was silent");
            if result.duration() > quick {
                late.insert(result.name.to_string());
            }
        }
        late
    };
    let late = look_up_all(0).await;
    let lost: BTreeSet<_> = hole.asked().iter().map(Asked::name).collect();
    assert!(!lost.is_empty() && lost.len() < 100, "{lost:?}");
    assert_eq!(late, lost, "only what the black hole was asked is late");
    assert!(look_up_all(0).await.is_empty(), "the black hole is known");
    assert!(look_up_all(3).await.is_empty(), "the black hole is known");

    alive.store(true, std::sync::atomic::Ordering::SeqCst);
    let before = hole.asked().len();
    let used_again = async {
        while hole.asked().len() < before + 10 {
            assert!(look_up_all(0).await.is_empty());
        }
    };
    timeout(DEADLINE, used_again)
        .await
        .expect("the server that answers again is used again");
    resolving.end().await;
}

#[tokio::test]
async fn silent_server_among_many_does_not_hold_up_the_union() {
    let hole = black_hole().await;
    let servers = rotating(2).await;
    let list = [hole.server(), servers[0].server(), servers[1].server()];
    let config = hasty();
    let mut resolving = Resolving::start(config.clone(), &list);
    let result = resolving.look_up("www.example.com", 2).await;
    assert_eq!(found(&result.v4).len(), 2);
    assert_eq!(found(&result.v6).len(), 2);
    assert!(result.duration() < config.total, "{:?}", result.duration());
    resolving.end().await;
}

#[tokio::test]
async fn slow_family_does_not_hold_up_the_other() {
    let server = Scripted::start(|asked| {
        if asked.is_v6() {
            Vec::new()
        } else {
            asked.addresses(&[A], 30).say()
        }
    })
    .await;
    let config = Config {
        remaining_wait: Duration::from_millis(300),
        ..patient()
    };
    let result = look_up(config, &[server.server()]).await;
    assert_eq!(found(&result.v4), [(A.to_owned(), 30)]);
    assert_eq!(failure(&result.v6), Failure::Timeout);
    assert_eq!(result.failed(), None);
    assert!(
        result.duration() < patient().resend,
        "{:?}",
        result.duration()
    );
}

#[tokio::test]
async fn look_up_ends_in_time_without_any_answer() {
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(black_hole().await);
    }
    let list: Vec<_> = servers.iter().map(Scripted::server).collect();
    let config = hasty();
    let result = look_up(config.clone(), &list).await;
    assert_eq!(result.failed(), Some(Failure::Timeout));
    let asked: Vec<_> = servers.iter().map(|server| server.asked().len()).collect();
    assert!(
        asked.iter().filter(|asked| **asked > 0).count() >= 2,
        "{asked:?}"
    );
    // The margin covers a busy machine.
    assert!(
        result.duration() < config.total * 10,
        "{:?}",
        result.duration()
    );
}

#[tokio::test]
async fn no_more_queries_than_allowed_are_in_flight_at_one_server() {
    let full = Scripted::gated(|asked| asked.addresses(&[A, AAAA], 30).say()).await;
    let config = Config {
        per_server: 6,
        ..patient()
    };
    let mut resolving = Resolving::start(config, &[full.server()]);
    for i in 0..50 {
        resolving.request(&format!("host{i}.example.com"), 0).await;
    }
    wait_until("the server is full", || full.in_flight() == 6).await;
    full.open();
    for _ in 0..50 {
        assert_eq!(found(&resolving.result().await.v4), [(A.to_owned(), 30)]);
    }
    assert_eq!(full.most_in_flight(), 6);
    resolving.end().await;
}

#[tokio::test]
async fn name_that_waited_for_room_at_a_server_did_not_fail() {
    let server = Scripted::start(|asked| {
        if asked.name().starts_with("slow") {
            return Vec::new();
        }
        asked.addresses(&[A, AAAA], 30).say()
    })
    .await;
    let config = Config {
        per_server: 4,
        ..hasty()
    };
    let mut resolving = Resolving::start(config.clone(), &[server.server()]);
    // Two run at a time, so the last names wait longer than a look-up may take.
    let slow = 10;
    assert!(config.timeout * slow / 2 > config.total);
    for i in 0..slow {
        resolving.request(&format!("slow{i}.example.com"), 0).await;
    }
    resolving.request("www.example.com", 0).await;
    for _ in 0..=slow {
        let result = resolving.result().await;
        if result.name.as_str() == "www.example.com." {
            assert_eq!(found(&result.v4), [(A.to_owned(), 30)]);
            assert_eq!(found(&result.v6), [(AAAA.to_owned(), 30)]);
        } else {
            assert_eq!(result.failed(), Some(Failure::Timeout));
        }
    }
    let mut asked: Vec<_> = server.asked().iter().map(Asked::name).collect();
    asked.sort();
    asked.dedup();
    assert_eq!(asked.len(), 11, "all of them were asked: {asked:?}");
    resolving.end().await;
}

#[tokio::test]
async fn look_up_that_is_not_patient_ends_early_without_an_answer() {
    let hole = black_hole().await;
    let mut resolving = Resolving::start(patient(), &[hole.server()]);
    let request = Request {
        is_patient: false,
        ..request("www.example.com", 0)
    };
    let began = Instant::now();
    resolving.requests.send(request).await.unwrap();
    let result = resolving.result().await;
    assert_eq!(result.failed(), Some(Failure::Timeout));
    assert!(result.is_unresponsive);
    assert!(began.elapsed() < DEADLINE / 2, "{:?}", began.elapsed());
    resolving.end().await;
}
