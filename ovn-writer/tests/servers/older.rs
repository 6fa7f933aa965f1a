//! Servers that know less. The newest one of them is a real server whose newer methods are hidden.

use ovn_writer::{
    address_set::AddressSet,
    ovsdb::{Operation, Outcome, Row},
};

use crate::{
    follow::{add, addresses, client, fill, insert, make_row, transact, until, up},
    harness::Database,
    proxy::Proxy,
};

/// Before Open vSwitch 2.12, 2.9 and 2.6.
const OLDER: [&[&str]; 3] = [
    &["monitor_cond_since"],
    &["monitor_cond_since", "set_db_change_aware", "_Server"],
    &[
        "monitor_cond_since",
        "set_db_change_aware",
        "_Server",
        "monitor_cond",
    ],
];

#[tokio::test]
async fn an_older_server_is_followed_as_well_as_it_can() {
    for (age, unknown) in OLDER.into_iter().enumerate() {
        let database = Database::start().await;
        let proxy = Proxy::start(database.workdir.join("nb.sock"), unknown);
        let mut writer = client(&database.northbound.remote());
        up(&mut writer).await;
        fill(&mut writer, 10).await;
        let row = make_row(&mut writer, "a1").await;
        let mut older = client(&proxy.remote());
        let (_, resumed) = up(&mut older).await;
        assert!(!resumed);
        // The oldest know no conditions.
        let others = if age == 2 { 10 } else { 0 };
        assert_eq!(older.replica().unwrap().len(), 1 + others);
        for n in 0..5 {
            transact(&mut writer, vec![add(row, &format!("10.0.0.{n}"))]).await;
        }
        let all = |count| {
            move |client: &_| addresses(client).is_some_and(|found| found.len() == count + others)
        };
        until(&mut older, "five addresses", all(5)).await;
        let outcome = transact(&mut older, vec![add(row, "10.0.0.9")]).await;
        assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
        until(&mut older, "six addresses", all(6)).await;
        let delete = Operation::Delete {
            table: "Address_Set".into(),
            filter: vec![ovn_writer::ovsdb::Condition::uuid(row)],
        };
        transact(&mut older, vec![delete, insert("a2")]).await;
        until(&mut older, "the second row alone", |client| {
            let names = |row: &AddressSet| row.name().starts_with('a');
            let mut rows = client.replica().into_iter().flat_map(|r| r.iter());
            rows.all(|(_, row)| !names(row) || row.name() == "a2") && all(0)(client)
        })
        .await;
        older.restart();
        let (_, resumed) = up(&mut older).await;
        assert!(!resumed);
        assert_eq!(older.replica().unwrap().len(), 1 + others);
    }
}

#[tokio::test]
async fn a_guard_refuses_what_relies_on_something_that_has_changed() {
    let database = Database::start().await;
    let mut client = client(&database.northbound.remote());
    up(&mut client).await;
    let row = make_row(&mut client, "a1").await;
    let guard = |name: &str| {
        let values = Row::from([("name".into(), name.into())]);
        Operation::guard("Address_Set", row, values)
    };
    let done = transact(&mut client, vec![guard("a1"), add(row, "10.0.0.1")]).await;
    assert!(matches!(done, Outcome::Done(_)), "{done:?}");
    match transact(&mut client, vec![guard("b1"), add(row, "10.0.0.2")]).await {
        Outcome::Refused(refusal) => {
            assert_eq!(refusal.operation, Some(0));
            assert_eq!(refusal.reason.error, "timed out", "{refusal}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(addresses(&client).unwrap(), ["10.0.0.1"]);
}
