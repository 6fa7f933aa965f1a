//! The whole way of an address, short: `scripts/bench path` measures it.

use std::time::Duration;

use tests::{
    or_skip,
    path_latency::{Change, Plan, markdown, measure},
};

#[tokio::test(flavor = "multi_thread")]
async fn way_from_the_answer_to_the_packet_is_measured() {
    let changes = vec![Change::Wildcard(1), Change::Rule];
    let plan = Plan {
        changes: changes.clone(),
        samples: 3,
        rest: Duration::from_secs(1),
        pause: Duration::from_millis(150),
    };
    let rows = or_skip!(measure(&plan).await);
    println!("{}", markdown(&rows));
    assert_eq!(rows.iter().map(|it| it.change).collect::<Vec<_>>(), changes);
    for row in rows {
        assert!(!row.samples.is_empty(), "{row:?}");
    }
}
