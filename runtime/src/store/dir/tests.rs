//! The contract, and the sentences of the module's documentation.

use super::*;
use crate::store::contract::Subject;

async fn subject() -> Subject<DirStore> {
    let dir = tempfile::tempdir().unwrap();
    Subject {
        store: DirStore::open(dir.path()).unwrap(),
        namespace: "ovn-kubernetes".to_owned(),
        guard: Box::new(dir),
    }
}

mod contract {
    use super::subject;

    crate::store_contract!(subject);
}
