//! The whole way of an address, short: `scripts/bench path` measures it.

use std::time::Duration;

use tests::{
    or_skip,
    path_latency::{Change, Plan, markdown, measure},
};

#[tokio::test(flavor = "multi_thread")]
async fn each_leg_from_the_answer_to_the_packet_is_told_in_order() {
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
        for sample in &row.samples {
            assert!(sample.legs.iter().all(|leg| *leg >= 0), "{row:?}");
            // One leg follows another. The packet is later than the row, or was sent just before.
            let [.., packet] = sample.legs;
            let sum: i64 = sample.legs.iter().sum();
            assert!(sample.all <= sum, "{row:?}");
            assert!(packet == 0 || sample.all == sum, "{row:?}");
        }
    }
}
