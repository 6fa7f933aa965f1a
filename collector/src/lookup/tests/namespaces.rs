//! The capacity that one namespace may take.

use super::*;

#[tokio::test]
async fn names_whose_servers_are_silent_hold_up_no_other_namespace() {
    let server = Scripted::start(|asked| {
        if asked.name().starts_with("silent") {
            return Vec::new();
        }
        asked.addresses(&[A, AAAA], 30).say()
    })
    .await;
    let clients = Clients::default();
    let config = hasty();
    let total = config.total;
    let mut resolving = Resolving::start(config, &[server.server()]);
    let silent = [clients.number("silent")];
    for i in 0..800 {
        let name = format!("silent{i}.example.com");
        resolving.request_of(&name, 0, &silent).await;
    }
    wait_until("the silent ones are asked", || server.asked().len() >= 16).await;
    let began = Instant::now();
    for (i, known) in [0, 1, 2, 1, 1].into_iter().enumerate() {
        let name = format!("www{i}.example.com");
        let team = [clients.number("team")];
        resolving.request_of(&name, known, &team).await;
    }
    let mut answered = 0;
    while answered < 5 {
        let result = resolving.result().await;
        answered += usize::from(result.name.as_str().starts_with("www"));
    }
    // Silent names take all of their time.
    assert!(began.elapsed() < total, "{:?}", began.elapsed());
    resolving.end().await;
}

#[test]
fn whatever_the_limits_are_a_namespace_may_have_what_it_begins_with() {
    for concurrency in 1..=300 {
        for per_server in [1, 4, 8, 64, 1000] {
            let config = Config {
                concurrency,
                per_server,
                ..Config::default()
            };
            for servers in 0..4 {
                let room = config.room(servers);
                let of_namespace = [1, room.least, room.most, room.all];
                assert!(of_namespace.is_sorted(), "{servers}: {room:?}");
            }
        }
    }
}
