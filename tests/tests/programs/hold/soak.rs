//! What holds for long: any query, and no failed one while collectors end or hang.

use std::time::Duration;

use rustix::process::Signal;
use tests::soak::or_long;

use super::{
    bytes::{are_equal, corpus, forwarder, mutated},
    listens,
    load::Outcome,
    replicas::Pair,
};

#[tokio::test]
async fn replies_to_mutated_queries_are_those_of_the_upstream() {
    let (_workdir, upstream, _collector, hold) = forwarder().await;
    let (corpus, mut random) = (corpus(), fastrand::Rng::with_seed(48));
    for _ in 0..or_long(100, 20_000) {
        let query = mutated(&corpus, &mut random);
        are_equal(hold, upstream.address(), &query).await;
    }
}

/// Long enough for CoreDNS to notice by its health checks.
fn phase() -> Duration {
    or_long(Duration::from_secs(3), Duration::from_secs(20))
}

fn judge(what: &str, outcome: &Outcome) {
    println!("{}", outcome.line(what));
    assert_eq!(outcome.failures, [""; 0], "{what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_query_fails_while_the_leader_ends_or_hangs() {
    println!("| event | queries | failed | p50 ms | p99 ms | longest ms | over 0.2 s | over 1 s |");
    let mut pair = Pair::start().await;
    let load = pair.load();
    load.goes_on(phase()).await;
    judge("none", &load.end().await);

    let load = pair.load();
    load.goes_on(phase() / 3).await;
    pair.collectors[0].process().kill();
    load.goes_on(phase()).await;
    judge("leader killed", &load.end().await);

    listens(&pair.collectors[1], true).await;
    pair.collectors[0].restart().await;
    pair.collectors[0].ready().await;
    let load = pair.load();
    load.goes_on(phase() / 3).await;
    let ended = pair.collectors[1].process().terminate().await;
    assert!(ended.success());
    listens(&pair.collectors[0], true).await;
    load.goes_on(phase()).await;
    judge("leader ended in order, as in a rollout", &load.end().await);

    let load = pair.load();
    load.goes_on(phase() / 3).await;
    pair.collectors[0].process().signal(Signal::STOP);
    load.goes_on(phase()).await;
    pair.collectors[0].process().signal(Signal::CONT);
    load.goes_on(phase() / 3).await;
    judge("leader stopped by SIGSTOP, without a standby", &load.end().await);
}
