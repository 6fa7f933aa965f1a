//! The fuzz targets on a stable toolchain, over their corpora from a stock CoreDNS and small mutations of these.

use std::{fs, path::Path};

use proptest::{prelude::*, sample::Index};

/// The files of a target's corpus.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fuzz/corpus")
        .join(target);
    let files = fs::read_dir(folder).unwrap();
    let files: Vec<_> = files
        .map(|file| fs::read(file.unwrap().path()).unwrap())
        .collect();
    assert!(!files.is_empty());
    files
}

/// A file of the corpus with parts of it replaced by a byte or by the same part of another file.
fn changed(target: &str) -> impl Strategy<Value = Vec<u8>> {
    let files = corpus(target);
    let change = (
        any::<[Index; 2]>(),
        0..4_usize,
        prop::option::of(any::<u8>()),
    );
    let changes = prop::collection::vec(change, 0..6);
    (any::<Index>(), changes).prop_map(move |(file, changes)| {
        let mut file = file.get(&files).clone();
        for ([at, other], length, byte) in changes {
            let at = at.index(file.len() + 1);
            let range = at..file.len().min(at + length);
            let put_in = match byte {
                Some(byte) => vec![byte],
                None => other
                    .get(&files)
                    .iter()
                    .skip(at)
                    .take(length)
                    .copied()
                    .collect(),
            };
            file.splice(range, put_in);
        }
        file
    })
}

#[test]
fn the_corpora_hold_what_must() {
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
