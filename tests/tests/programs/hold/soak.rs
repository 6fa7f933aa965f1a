//! What holds for long: any query, and no failed one while collectors end or hang.

use std::time::Duration;

use rustix::process::Signal;
use tests::{
    hold::{FORGED, Outcome, usual_rate},
    soak::or_long,
    upstream::{Asked, Say, Scripted, name},
};
use tokio::time::{Instant, sleep};

use super::{
    bytes::{are_equal, corpus, forwarder, mutated},
    listens, numbered,
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
    let load = pair.load(usual_rate());
    load.goes_on(phase()).await;
    judge("none", &load.end().await);

    let load = pair.load(usual_rate());
    load.goes_on(phase() / 3).await;
    pair.collectors[0].process().kill();
    load.goes_on(phase()).await;
    judge("leader killed", &load.end().await);

    listens(&pair.collectors[1], true).await;
    pair.collectors[0].restart().await;
    pair.collectors[0].ready().await;
    let load = pair.load(usual_rate());
    load.goes_on(phase() / 3).await;
    let ended = pair.collectors[1].process().terminate().await;
    assert!(ended.success());
    listens(&pair.collectors[0], true).await;
    load.goes_on(phase()).await;
    judge("leader ended in order, as in a rollout", &load.end().await);

    let load = pair.load(usual_rate());
    load.goes_on(phase() / 3).await;
    pair.collectors[0].process().signal(Signal::STOP);
    load.goes_on(phase()).await;
    pair.collectors[0].process().signal(Signal::CONT);
    load.goes_on(phase() / 3).await;
    judge(
        "leader stopped by SIGSTOP, without a standby",
        &load.end().await,
    );
}

/// How much the memory of a collector may grow, in bytes.
const GROWTH: u64 = 64 << 20;

/// The right reply, of which some come late or after wrong ones.
fn faulty(asked: &Asked) -> Vec<Say> {
    let mut forged = asked.ips(&[FORGED], 300);
    let mut said = match fastrand::u8(0..8) {
        0 => {
            forged.queries[0].name = name("other.up.test.");
            vec![Say::Reply(forged)]
        }
        1 => {
            forged.metadata.id = forged.metadata.id.wrapping_add(1);
            vec![Say::Reply(forged)]
        }
        2 => vec![Say::FromElsewhere(forged)],
        3 => vec![Say::Octets(vec![0; fastrand::usize(0..20)])],
        _ => Vec::new(),
    };
    said.extend(numbered(asked));
    said
}

/// CoreDNS's socket buffer loses queries while it turns to another server. A resolver asks again after 5 s: another fault just then
/// would be a second one for the same query.
fn until_next_fault() -> Duration {
    Duration::from_secs(fastrand::u64(8..20))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_query_fails_and_memory_is_bounded_with_random_faults() {
    let mut pair = Pair::start_with(Scripted::start(faulty).await).await;
    let end = Instant::now() + or_long(Duration::from_secs(8), Duration::from_secs(3600));
    let load = pair.load(or_long(100, 5000));
    let mut first = None;
    while Instant::now() < end {
        let collector = &mut pair.collectors[fastrand::usize(0..2)];
        match fastrand::u8(0..or_long(4, 2)) {
            0 => collector.restart().await,
            1 => {
                collector.process().signal(Signal::STOP);
                sleep(Duration::from_millis(fastrand::u64(0..1500))).await;
                collector.process().signal(Signal::CONT);
            }
            _ => {}
        }
        load.goes_on(or_long(Duration::from_secs(1), until_next_fault()))
            .await;
        let memory = pair
            .collectors
            .iter_mut()
            .map(|it| it.process().memory()[0]);
        let memory: u64 = memory.sum();
        let first = *first.get_or_insert(memory);
        assert!(memory < first + GROWTH, "{memory} bytes, at first {first}");
    }
    assert!(pair.upstream.count(|_| true) > 0);
    judge(
        "random faults of both collectors and the upstream",
        &load.end().await,
    );
}
