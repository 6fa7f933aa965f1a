//! The forwarder that holds answers, while the API server is away, and in a rollout.

use std::time::Duration;

use tests::{
    coredns::{CoreDns, free_port},
    hold::{Load, WILDCARD, hold_flag, numbered, usual_rate, write_corefile},
    kube::ApiServer,
    soak::or_long,
    upstream::Scripted,
    wait::eventually,
    workdir::Workdir,
};

use crate::collectors::Collector;

/// A lead ends 10 s after the last answer of the API server. The test waits for that anyway.
fn outage() -> Duration {
    Duration::from_secs(or_long(1, 30))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_query_fails_while_the_api_server_is_away() {
    let mut server = ApiServer::start().await;
    let namespace = server.namespace().await;
    server.allow(&namespace, &[WILDCARD]).await;
    let (upstream, workdir) = (Scripted::start(numbered).await, Workdir::new());
    let addresses = [free_port(), free_port()];
    let mut collectors = Vec::new();
    for address in addresses {
        let flag = hold_flag(address, upstream.address);
        collectors.push(Collector::start(&server.kubeconfig(), &namespace, &[&flag]).await);
    }
    write_corefile(&workdir, &[addresses[0], addresses[1], upstream.address]);
    let coredns = CoreDns::start(workdir.path()).await;
    let listening = async |wanted: f64| {
        eventually("forwarders", async || {
            let mut sum = 0.0;
            for collector in &collectors {
                sum += collector
                    .metric("egress_collector_hold_listening", &[])
                    .await;
            }
            (sum == wanted).then_some(()).ok_or_else(|| sum.to_string())
        })
        .await;
    };
    let load = || {
        Load::start(coredns.address(), usual_rate(), |number| {
            format!("n{}.up.test.", number % 250)
        })
    };
    for event in or_long(&["killed"][..], &["killed", "stopped by SIGSTOP"]) {
        listening(1.0).await;
        let running = load();
        running.goes_on(outage() / 4).await;
        match *event {
            "killed" => server.stop(),
            _ => server.pause(),
        }
        running.goes_on(outage()).await;
        listening(0.0).await;
        server.stop();
        server.start_again().await;
        listening(1.0).await;
        let outcome = running.end().await;
        println!("{}", outcome.line(&format!("API server {event}")));
        assert_eq!(outcome.failures, [""; 0], "API server {event}");
    }
}
