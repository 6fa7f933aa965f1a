//! The fuzz targets on a stable toolchain, over their corpora and small mutations of these.

#[path = "../../../fuzz/corpus.rs"]
mod corpus;

use proptest::prelude::*;

use self::corpus::{changed, corpus};
use super::*;

#[test]
fn targets_accept_their_corpora() {
    corpus("json_stream")
        .iter()
        .for_each(|file| json_stream(file));
    corpus("json_rpc").iter().for_each(|file| json_rpc(file));
}

proptest! {
    #[test]
    fn json_stream_accepts_any_bytes(
        data in prop_oneof![changed("json_stream"), prop::collection::vec(any::<u8>(), 0..300)],
    ) {
        json_stream(&data);
    }

    #[test]
    fn json_rpc_accepts_changed_corpus(data in changed("json_rpc")) {
        json_rpc(&data);
    }
}
