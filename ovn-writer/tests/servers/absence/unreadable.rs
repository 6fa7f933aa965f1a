//! Existing objects that cannot be read: they count as present, and block nothing for ever.

use proto::api::Family::V4;

use super::fixture::{Fixture, closing_soon, name};

const STRANGER: &str = "stranger.example.";

const NONE: [&str; 0] = [];

/// A writer that started beside an unreadable object; `n0` was deleted before, with or without its rule. An absent name
/// in use is closed soon.
async fn beside_a_stranger(keeps_rule: bool) -> Fixture {
    let (mut fixture, acls) = Fixture::start_with(4, closing_soon()).await;
    fixture.stop_writer().await;
    fixture.store.write_garbage(STRANGER);
    fixture.store.remove_object(&name(0));
    if !keeps_rule {
        fixture.database.northbound.remove_acl(&acls[0]);
    }
    fixture.start_writer();
    fixture.fence().await;
    fixture
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_went_with_its_rule_closes_beside_an_unreadable_object() {
    let fixture = beside_a_stranger(false).await;
    fixture.expect_no_row(&name(0)).await;
    fixture.store.write_status(STRANGER, &["192.0.2.1"]);
    fixture.writer.ready().await;
    assert_eq!(fixture.closings(), NONE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_a_rule_uses_closes_in_time_once_every_object_can_be_read() {
    for is_mended in [true, false] {
        let mut fixture = beside_a_stranger(true).await;
        fixture.outlast(6).await;
        assert_eq!(fixture.closings(), NONE);
        if is_mended {
            fixture.store.write_status(STRANGER, &["192.0.2.1"]);
        } else {
            fixture.store.remove_object(STRANGER);
        }
        fixture.expect_empty(&name(0)).await;
        fixture.writer.ready().await;
        assert_eq!(fixture.closings(), ["n0.example. 10.0.0.0"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_becomes_unreadable_is_present_with_what_it_said() {
    let (mut fixture, acls) = Fixture::start_with(4, closing_soon()).await;
    fixture.store.write_garbage(&name(0));
    fixture.outlast(6).await;
    // After a restart the name is present with the addresses of its row.
    fixture.stop_writer().await;
    fixture.start_writer();
    fixture.outlast(6).await;
    assert_eq!(fixture.closings(), NONE);
    // It becomes readable, then unreadable again, and is deleted together with its rule.
    fixture.store.write_status(&name(0), &["10.1.0.1"]);
    fixture.database.expect(&name(0), V4, &["10.1.0.1"]).await;
    fixture.store.write_garbage(&name(0));
    fixture.database.northbound.remove_acl(&acls[0]);
    fixture.outlast(2).await;
    fixture.database.expect(&name(0), V4, &["10.1.0.1"]).await;
    fixture.store.remove_object(&name(0));
    fixture.expect_no_row(&name(0)).await;
    fixture.expect_rest(1..4).await;
    assert_eq!(fixture.closings(), ["n0.example. 10.0.0.0"]);
}
