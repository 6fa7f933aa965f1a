//! Changes of the list of servers, and the end of the task.

use std::collections::HashSet;

use super::*;

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
