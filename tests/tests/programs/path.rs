//! The whole way of an address, short: `scripts/bench path` measures it.

use tests::{
    or_skip,
    path_latency::{Between, Change, Plan, markdown, measure},
};

#[tokio::test(flavor = "multi_thread")]
async fn each_leg_from_the_answer_to_the_packet_is_told_in_order() {
    let changes = vec![Change::Wildcard(1), Change::Rule, Change::Expiry];
    let plan = Plan {
        between: vec![Between::Folder],
        changes: changes.clone(),
        with_load: false,
        samples: 3,
    };
    let rows = or_skip!(measure(&plan).await);
    println!("{}", markdown(&rows));
    assert_eq!(rows.iter().map(|it| it.change).collect::<Vec<_>>(), changes);
    for row in rows {
        assert!(!row.samples.is_empty(), "{row:?}");
        for sample in &row.samples {
            assert_eq!(sample.legs.len(), row.change.legs().len(), "{row:?}");
            assert!(sample.legs.iter().all(|leg| *leg >= 0), "{row:?}");
            // One leg follows another up to the row; the packet is later than that, or came just before.
            let [until_row @ .., _, packet] = &sample.legs[..] else {
                panic!("{row:?}");
            };
            let until_row: i64 = until_row.iter().sum();
            assert!(sample.all <= until_row + packet, "{row:?}");
            assert!(*packet == 0 || sample.all == until_row + packet, "{row:?}");
        }
    }
}
