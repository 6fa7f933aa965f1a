//! The fuzz target on a stable toolchain, over its corpus and small mutations of it.

#[path = "../../../fuzz/corpus.rs"]
mod corpus;

use proptest::prelude::*;

use self::corpus::{changed, corpus};
use super::*;

#[test]
fn corpus_passes_the_fuzz_target() {
    corpus("updates").iter().for_each(|file| updates(file));
}

proptest! {
    #[test]
    fn any_updates_leave_a_replica_that_finds_its_rows(data in changed("updates")) {
        updates(&data);
    }
}
