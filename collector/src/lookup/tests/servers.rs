//! Changes of the list of servers, and the end of the task.

use std::collections::HashSet;

use super::*;

#[tokio::test]
async fn look_ups_wait_for_the_first_list_of_servers() {
    let mut resolving = Resolving::start(patient(), &[]);
    let server = good().await;
    resolving.request("www.example.com", 0).await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(resolving.results.is_empty(), "nobody was asked");
    resolving.servers.send_replace([server.server()].into());
    assert_eq!(resolving.result().await.failed(), None);
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
    servers.send_replace([server.server()].into());
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

#[tokio::test]
async fn list_without_a_sender_stays() {
    let server = good().await;
    let mut resolving = Resolving::start(patient(), &[server.server()]);
    drop(std::mem::replace(
        &mut resolving.servers,
        watch::channel(Servers::default()).0,
    ));
    for _ in 0..3 {
        let result = resolving.look_up("www.example.com", 0).await;
        assert_eq!(result.failed(), None);
    }
    resolving.end().await;
}

#[tokio::test]
async fn shutdown_ends_what_is_under_way() {
    let hole = black_hole().await;
    let resolving = Resolving::start(patient(), &[hole.server()]);
    for i in 0..300 {
        resolving.request(&format!("host{i}.example.com"), 0).await;
    }
    wait_until("queries are under way", || !hole.asked().is_empty()).await;
    resolving.end().await;
    // It ended before any datagram was due to be sent again.
    let asked = hole.asked();
    let questions: HashSet<_> = asked.iter().map(|it| (it.name(), it.is_v4())).collect();
    assert_eq!(questions.len(), asked.len());
}

#[tokio::test]
async fn without_a_publisher_the_task_waits_for_shutdown() {
    let server = Scripted::gated(|asked| asked.addresses(&[A], 30).say()).await;
    let resolving = Resolving::start(patient(), &[server.server()]);
    resolving.request("www.example.com", 0).await;
    wait_until("the query came", || server.in_flight() > 0).await;
    let Resolving {
        requests,
        mut results,
        shutdown,
        task,
        ..
    } = resolving;
    drop(requests);
    server.open();
    let result = timeout(DEADLINE, results.recv()).await.unwrap();
    assert!(result.is_some(), "what was under way is ended");
    assert!(!task.is_finished());
    shutdown.cancel();
    timeout(DEADLINE, task).await.unwrap().unwrap().unwrap();
}
