//! Limits: the servers queried, the time-outs, and the number of queries at once.

use super::*;

#[tokio::test]
async fn with_nothing_or_one_known_one_server_is_asked() {
    let servers = [good().await, good().await, good().await];
    for known in [0, 1] {
        let list: Vec<_> = servers.iter().map(|it| it.address).collect();
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
    let list: Vec<_> = servers.iter().map(|it| it.address).collect();
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
async fn nxdomain_is_an_answer_and_servfail_is_tried_elsewhere() {
    for (code, servers, expected) in [
        (ResponseCode::NXDomain, 2, 2),
        (ResponseCode::ServFail, 2, 4),
        // Not every server is asked for a name that is broken.
        (ResponseCode::ServFail, 6, 6),
    ] {
        let mut all = Vec::new();
        for _ in 0..servers {
            all.push(saying(code).await);
        }
        let list: Vec<_> = all.iter().map(|it| it.address).collect();
        assert!(look_up(patient(), &list).await.failed().is_some());
        let asked: usize = all.iter().map(|server| server.asked().len()).sum();
        assert_eq!(asked, expected, "{code} {servers}");
    }
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
    let result = look_up(config, &[server.address]).await;
    assert_eq!(found(&result.v4), [(A.to_owned(), 30)]);
    assert_eq!(found(&result.v6), [(AAAA.to_owned(), 30)]);
    assert_eq!(server.asked().len(), 4);
}

#[tokio::test]
async fn look_up_ends_in_time_without_any_answer() {
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(black_hole().await);
    }
    let list: Vec<_> = servers.iter().map(|it| it.address).collect();
    let (config, began) = (hasty(), Instant::now());
    let result = look_up(config.clone(), &list).await;
    let took = began.elapsed();
    assert_eq!(result.failed(), Some(Failure::Timeout));
    let asked: Vec<_> = servers.iter().map(|server| server.asked().len()).collect();
    assert!(
        asked.iter().filter(|asked| **asked > 0).count() >= 2,
        "{asked:?}"
    );
    // The margin covers a busy machine.
    assert!(took < config.total * 10, "{took:?}");
}

#[tokio::test]
async fn look_up_that_is_not_patient_ends_early_without_an_answer() {
    let hole = black_hole().await;
    let mut resolving = Resolving::start(patient(), &[hole.address]);
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

#[tokio::test]
async fn without_servers_every_name_fails_until_there_are_some() {
    let mut resolving = Resolving::start(patient(), &[]);
    resolving.servers.send_replace(Servers::default());
    let result = resolving.look_up("www.example.com", 3).await;
    assert_eq!(result.failed(), Some(Failure::NoServer));
    let server = good().await;
    let servers = resolving.servers.clone();
    servers.send_replace([server.address].into());
    let mut until = async |failure| {
        while resolving.look_up("www.example.com", 3).await.failed() != failure {}
    };
    timeout(DEADLINE, until(None)).await.unwrap();
    servers.send_replace(Servers::default());
    timeout(DEADLINE, until(Some(Failure::NoServer)))
        .await
        .unwrap();
    resolving.end().await;
}
