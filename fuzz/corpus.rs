//! The files of the fuzz targets' corpora and small mutations of them, for the tests of the crates with targets.

use std::{fs, path::Path};

use proptest::{prelude::*, sample::Index};

/// The files of a target's corpus.
pub(crate) fn corpus(target: &str) -> Vec<Vec<u8>> {
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

/// A file of the corpus with some bytes changed, removed, repeated, or inserted from another file.
pub(crate) fn changed(target: &str) -> impl Strategy<Value = Vec<u8>> {
    let files = corpus(target);
    let any_file = prop::sample::select(files.clone());
    let change = (any::<[Index; 3]>(), any::<u8>(), 0..4);
    (any_file, prop::collection::vec(change, 0..6)).prop_map(move |(mut file, changes)| {
        for ([at, end, other], byte, kind) in changes {
            let [at, end] = [at, end].map(|index| index.index(file.len() + 1));
            let range = at.min(end)..at.max(end);
            let put_in = match kind {
                0 => vec![byte],
                1 => Vec::new(),
                2 => file[range.clone()].repeat(2),
                _ => {
                    let other = &files[other.index(files.len())];
                    other[range.start.min(other.len())..range.end.min(other.len())].to_vec()
                }
            };
            file.splice(range, put_in);
        }
        file
    })
}
