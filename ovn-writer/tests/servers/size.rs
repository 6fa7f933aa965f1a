//! Much that is not ours, and much that is.

use std::time::{Duration, Instant};

use ovn_writer::ovsdb::{Datum, Mutation, Mutator, Operation, Outcome};
use tests::soak::judge;

use crate::{
    follow::{add, addresses, client, fill, make_row, transact, up},
    harness::Database,
};

mod soak {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_hundred_thousand_rows_of_others_cost_nothing() {
        let database = Database::start().await;
        let mut first = client(&database.northbound.remote());
        up(&mut first).await;
        let row = make_row(&mut first, "a1").await;
        fill(&mut first, 100_000).await;
        assert_eq!(first.replica().unwrap().len(), 1);
        let started = Instant::now();
        let mut second = client(&database.northbound.remote());
        up(&mut second).await;
        let read = started.elapsed();
        assert_eq!(second.replica().unwrap().len(), 1);
        let started = Instant::now();
        let changes: u32 = 100;
        for n in 0..changes {
            transact(&mut second, vec![add(row, &format!("10.0.0.{n}"))]).await;
        }
        let change = started.elapsed() / changes;
        assert_eq!(addresses(&second).unwrap().len(), 100);
        judge("beside 100,000 rows: read", read, Duration::from_secs(5));
        judge(
            "beside 100,000 rows: a change",
            change,
            Duration::from_millis(100),
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_of_many_megabytes_is_read_while_all_else_goes_on() {
    let database = Database::start().await;
    let mut first = client(&database.northbound.remote());
    up(&mut first).await;
    let row = make_row(&mut first, "a1").await;
    // Long members, which are no addresses: 20 MB of them.
    let members = |from: usize| (from..from + 1000).map(|n| format!("{n:0>2000}"));
    for from in (0..10_000).step_by(1000) {
        let mutate = Operation::Mutate {
            table: "Address_Set".into(),
            filter: vec![ovn_writer::ovsdb::Condition::uuid(row)],
            mutations: vec![Mutation(
                "addresses".into(),
                Mutator::Insert,
                Datum::strings(members(from)),
            )],
        };
        let outcome = transact(&mut first, vec![mutate]).await;
        assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
    }
    let started = Instant::now();
    let mut second = client(&database.northbound.remote());
    up(&mut second).await;
    println!("20 MB: read in {:?}", started.elapsed());
    let row = second.replica().unwrap().get(row).unwrap();
    assert_eq!(row.others().len(), 10_000);
}
