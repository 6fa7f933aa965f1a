//! Statuses without addresses: those with a reason are believed, others have no statement.

use proto::api::Family::{V4, V6};

use super::fixture::{Fixture, address, name};

/// Statuses without a statement, as the end of a manifest.
const SILENT: [&str; 4] = [
    "",
    "status: {}\n",
    "status: {resolvedNames: []}\n",
    "status: {resolvedNames: [{dnsName: n0.example., resolvedAddresses: []}]}\n",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_status_that_lost_its_last_address_before_start_empties_the_set() {
    for reason in ["NXDOMAIN", "NODATA"] {
        let (mut fixture, _) = Fixture::start(2).await;
        fixture.stop_writer().await;
        fixture.store.write_no_address(&name(0), reason);
        fixture.start_writer();
        fixture.expect_empty(&name(0)).await;
        fixture.outlast(1).await;
        assert_eq!(fixture.closings(), ["n0.example. 10.0.0.0"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_that_says_nothing_empties_nothing() {
    let (mut fixture, _) = Fixture::start(2).await;
    for status in SILENT {
        // While it is watched, and at a start.
        fixture.store.write_object(&name(0), status);
        fixture.outlast(2).await;
        fixture.stop_writer().await;
        fixture.start_writer();
        fixture.outlast(2).await;
        assert_eq!(fixture.closings(), [""; 0], "{status:?}");
        fixture.store.write_status(&name(0), &[&address(0)]);
        fixture.fence().await;
    }
    fixture.expect_all(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watched_status_without_addresses_closes_at_once_and_reopens() {
    let (fixture, _) = Fixture::start(2).await;
    fixture.store.write_no_address(&name(0), "NXDOMAIN");
    fixture.expect_empty(&name(0)).await;
    fixture
        .store
        .write_status(&name(0), &["10.1.0.1", "2001:db8::1"]);
    fixture.database.expect(&name(0), V4, &["10.1.0.1"]).await;
    fixture
        .database
        .expect(&name(0), V6, &["2001:db8::1"])
        .await;
    // It has no address of one family any more.
    fixture.store.write_status(&name(0), &["2001:db8::1"]);
    fixture.expect_empty(&name(0)).await;
    fixture
        .database
        .expect(&name(0), V6, &["2001:db8::1"])
        .await;
    let closings = fixture.closings();
    assert_eq!(closings, ["n0.example. 10.0.0.0", "n0.example. 10.1.0.1"]);
}
