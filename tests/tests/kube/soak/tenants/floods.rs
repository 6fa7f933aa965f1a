//! Thousands of random labels a second.

use std::time::{Duration, Instant};

use tests::{
    or_skip,
    pods::{Load, Pod},
    soak::{is_long, or_long, print_delays},
};

use super::{
    Cluster, allow, no_data,
    zones::{EIGHT, ONE},
};

/// Unoptimised programs beside other tests take fewer.
fn per_second() -> u32 {
    or_long(1_000, 3_000)
}

/// While the first pod queries names of one kind as fast as it can, the other pod's names must arrive.
struct Stage {
    /// From the query to the status, under another wildcard.
    delays: Vec<Duration>,
    answers: u32,
    lost: f64,
}

impl Stage {
    async fn of(
        cluster: &Cluster,
        [bad, team]: [&Pod; 2],
        first: u32,
        name: impl Fn(u32) -> String + Clone + Send + 'static,
    ) -> Self {
        let lost = async || {
            let collector = &cluster.collector;
            let lost = collector.metric("egress_collector_observations_lost_total", &[]);
            lost.await
        };
        let before = lost().await;
        let load = Load::start(bad, per_second(), name);
        let mut delays = Vec::new();
        for number in first..first + or_long(15, 200) {
            let (asked, name) = (Instant::now(), EIGHT.name(number));
            let name = (name.as_str(), EIGHT.kind());
            cluster.arrives(team, EIGHT.wildcard, name).await;
            delays.push(asked.elapsed());
        }
        Self {
            delays,
            answers: load.answers(),
            lost: lost().await - before,
        }
    }

    /// Prints the median in seconds, and returns it.
    fn median(&self, what: &str) -> f64 {
        println!(
            "{what}: {} answers, {} observations lost",
            self.answers, self.lost
        );
        print_delays(what, self.delays.clone());
        let mut delays = self.delays.clone();
        delays.sort_unstable();
        delays[delays.len() / 2].as_secs_f64()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_random_labels_a_second_lose_no_answer_of_others() {
    let mut cluster = or_skip!(Cluster::start(no_data, &[]).await);
    let wildcards = [ONE.wildcard, EIGHT.wildcard];
    let bad = cluster.tenant("bad", allow(&wildcards), 1).await;
    let team = cluster.tenant("team", allow(&wildcards), 1).await;
    // More labels than the wildcard may have names.
    let fill = [(&team[0], 40_000..40_100), (&bad[0], 0..2_500)];
    for (pod, labels) in fill {
        pod.ask_all(labels.map(|number| ONE.name(number)), ONE.kind())
            .await;
    }
    cluster
        .collector
        .program
        .counts("egress_collector_evictions_total", &[], 1.0)
        .await;

    let pods = [&bad[0], &team[0]];
    let random = Stage::of(&cluster, pods, 50_000, |n| ONE.name(100_000 + n)).await;
    // As many answers for known names cost CoreDNS and the pod the same.
    let known = Stage::of(&cluster, pods, 51_000, |n| ONE.name(40_000 + n % 100)).await;
    let ratio = random.median("beside random labels") / known.median("beside known names");
    println!("random labels take {ratio:.2} times as long");
    if is_long() {
        assert_eq!([random.lost, known.lost], [0.0, 0.0]);
        assert!(ratio <= 2.0, "{ratio}");
    }
    // There is room for others under the same wildcard.
    cluster
        .arrives(pods[1], ONE.wildcard, (&ONE.name(52_000), ONE.kind()))
        .await;
}
