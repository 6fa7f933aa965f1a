//! The README's example against a real server. The ovn-writer's tests show clusters and TLS.

#[path = "../../examples/quickstart.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "an example is a program of its own"
)]
mod quickstart;

use crate::server::{Server, within};

#[test]
fn readme_shows_example_that_is_tested() {
    let readme = include_str!("../../README.md");
    let (_, shown) = readme.split_once("```rust\n").unwrap();
    let (shown, _) = shown.split_once("```").unwrap();
    assert!(include_str!("../../examples/quickstart.rs").contains(shown));
}

#[tokio::test]
async fn quickstart_makes_set_and_finds_it_when_it_runs_again() {
    let server = Server::start();
    for (name, sets) in [("a", 1), ("a", 1), ("b", 2)] {
        let made = within(quickstart::make_set(&server.remote(), name.to_owned())).await;
        assert_eq!(made.unwrap(), sets);
    }
}
