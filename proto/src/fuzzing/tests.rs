//! The fuzz targets on a stable toolchain, over their corpora from a stock CoreDNS and small mutations of these.

#[path = "../../../fuzz/corpus.rs"]
mod corpus;

use proptest::prelude::*;

use self::corpus::{changed, corpus};

#[test]
fn corpora_pass_their_fuzz_targets() {
    corpus("frame_stream")
        .iter()
        .for_each(|file| super::frame_stream(file));
    corpus("dnstap").iter().for_each(|file| super::dnstap(file));
    corpus("dns").iter().for_each(|file| super::dns(file));
    corpus("query").iter().for_each(|file| super::query(file));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn a_changed_capture_is_cut_the_same_way(data in changed("frame_stream")) {
        super::frame_stream(&data);
    }

    #[test]
    fn a_changed_event_is_what_it_is_to_prost(data in changed("dnstap")) {
        super::dnstap(&data);
    }

    #[test]
    fn a_changed_reply_to_another_question_is_refused(data in changed("query")) {
        super::query(&data);
    }

    #[test]
    fn a_changed_response_is_what_it_is_to_hickory(data in changed("dns")) {
        super::dns(&data);
    }
}
