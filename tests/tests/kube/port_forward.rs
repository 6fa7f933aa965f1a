//! `egress` reaches the pods by port-forward, through the API server and the kubelet's streaming server.

use std::{collections::BTreeMap, fs};

use tests::{coredns::free_port, node::Ports, or_skip, wait::eventually};
use tokio::net::TcpListener;

use crate::installation::{ADDRESS, Installation, NAME, NAMESPACE};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn egress_asks_pods_by_port_forward_and_names_those_without_an_answer() {
    let it = or_skip!(Installation::start().await);
    // Both nodes say the same, so that they share their lines.
    let together = format!(
        "{} on node node-a, {} on node node-b:",
        it.writers[0].name, it.writers[1].name
    );
    let text = eventually("one answer", async || {
        match it.egress(&["explain", NAME]).await {
            (Some(0), text) if text.contains(&together) => Ok(text),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let parts = [
        "www.example.com. is there, with 1 address.",
        "Allow in team/default",
        ADDRESS,
    ];
    for part in parts {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    eventually("all is well", async || match it.egress(&["check"]).await {
        (Some(0), text) if text.contains("All is well.") => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    let (status, text) = it.egress(&["verify"]).await;
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains(&together), "{text}");

    let (status, text) = it.egress(&["list", "--name=www"]).await;
    assert_eq!(status, Some(0), "{text}");
    let line = text.lines().find(|line| line.contains(ADDRESS)).unwrap();
    assert!(line.starts_with(NAME) && line.ends_with("  2/2"), "{text}");
    let (status, text) = it.egress(&["watch", "--duration=5s"]).await;
    assert_eq!(status, Some(0), "{text}");
    for pod in it.writers.iter().chain(&it.collectors) {
        let watched = format!(" {} on node ", pod.name);
        let mut lines = text.lines();
        let is_watched = |line: &str| line.starts_with("watching ") && line.contains(&watched);
        assert!(lines.any(is_watched), "{text}");
    }

    let file = it.folder().join("capture.fstrm");
    let pod = &it.collectors[0].name;
    let path = file.to_str().unwrap();
    let args = ["capture", path, "--duration=1s", "--pod", pod];
    let (status, text) = it.egress(&args).await;
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains(pod), "{text}");
    assert!(fs::metadata(&file).unwrap().len() > 0);

    // Nothing listens in one pod; the other accepts a connection and says nothing.
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let places = [free_port().port(), mute.local_addr().unwrap().port()];
    for (pod, port) in it.writers.iter().zip(places) {
        let ports = Ports {
            ports: BTreeMap::from([(9093, port)]),
            ..Ports::default()
        };
        it.kubelet.connect((NAMESPACE, &pod.name), &ports);
    }
    let (status, text) = it.egress(&["explain", NAME]).await;
    assert_eq!(status, Some(2), "{text}");
    let line = |index: usize| {
        let place = format!("? the ovn-writer {} on node", it.writers[index].name);
        text.lines()
            .find(|line| line.starts_with(&place))
            .unwrap_or_else(|| panic!("{text}"))
    };
    assert!(line(0).contains("connection refused"), "{text}");
    assert!(line(1).contains("no answer in 10s"), "{text}");
    assert!(text.contains("Allow in team/default"), "{text}");

    // One node differs: it has its own lines.
    it.kubelet
        .connect((NAMESPACE, &it.writers[0].name), &it.writers[0].ports);
    it.kubelet.delete((NAMESPACE, &it.writers[1].name)).await;
    let (status, text) = it.egress(&["explain", NAME]).await;
    assert_eq!(status, Some(0), "{text}");
    assert!(!text.contains(&it.writers[1].name), "{text}");
}
