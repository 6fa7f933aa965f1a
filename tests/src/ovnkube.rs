//! What ovn-kubernetes was seen to write into the northbound database: rules and sets by hand, and a second writer of the sets.

mod by_hand;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use proto::api::{
    DEFAULT_NETWORK_CONTROLLER, DnsNameResolver, Family, address_set_id, address_set_name,
};
use serde_json::json;

use crate::{northbound::Northbound, ovsdb::Client, store::Store};

/// The comment of all transactions of [`OvnKube`].
pub const COMMENT: &str = "ovnkube";

/// The pause between two looks at the store.
const PAUSE: Duration = Duration::from_millis(2);

/// The longest time from a status to the set, as measured with real programs.
const LATEST: Duration = Duration::from_millis(10);

/// `ovnkube-controller` as a second writer of the sets. It ends on drop.
///
/// On any difference of a status, even of one time, it replaces the whole `addresses` column of both sets, in one update a
/// family. It sends nothing if a row is equal already, makes no missing row, and repairs nothing.
#[derive(Debug)]
pub struct OvnKube {
    ends: Arc<AtomicBool>,
    writes: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl OvnKube {
    /// Follows the statuses of this store from now on.
    pub fn start(northbound: &Northbound, store: &Store) -> Self {
        let (ends, writes) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (is_over, count) = (Arc::clone(&ends), Arc::clone(&writes));
        let (folder, store) = (northbound.folder().to_owned(), store.clone());
        let thread = thread::spawn(move || follow(&folder, &store, &is_over, &count));
        Self {
            ends,
            writes,
            thread: Some(thread),
        }
    }

    /// How many sets it has replaced.
    pub fn writes(&self) -> usize {
        self.writes.load(Relaxed)
    }
}

impl Drop for OvnKube {
    fn drop(&mut self) {
        self.ends.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(
                ended.is_ok() || thread::panicking(),
                "ovn-kubernetes failed"
            );
        }
    }
}

fn follow(folder: &Path, store: &Store, ends: &AtomicBool, writes: &AtomicUsize) {
    let mut client = Client::connect(folder).expect("the server runs");
    let mut known: BTreeMap<String, DnsNameResolver> = BTreeMap::new();
    while !ends.load(Relaxed) {
        for object in store.objects() {
            let name = object.spec.name.clone();
            if known.get(&name).map(|known| &known.status) == Some(&object.status) {
                continue;
            }
            thread::sleep(LATEST.mul_f64(fastrand::f64()));
            for family in Family::ALL {
                let addresses = addresses(&object, family);
                let replaced = replace(&mut client, &set_name(&name, family), &addresses);
                writes.fetch_add(usize::from(replaced.expect("the server answers")), Relaxed);
            }
            known.insert(name, object);
        }
        thread::sleep(PAUSE);
    }
}

fn addresses(object: &DnsNameResolver, family: Family) -> BTreeSet<String> {
    let names = object.status.iter().flat_map(|it| &it.resolved_names);
    let addresses = names.flat_map(|name| &name.resolved_addresses);
    let texts = addresses.map(|address| address.ip.to_string());
    let is_v6 = family == Family::V6;
    texts.filter(|text| text.contains(':') == is_v6).collect()
}

/// Returns whether there is a set with other addresses.
fn replace(client: &mut Client, set: &str, addresses: &BTreeSet<String>) -> Result<bool, String> {
    let addresses = json!(["set", addresses]);
    let differs = json!([["name", "==", set], ["addresses", "!=", addresses]]);
    let results = client.transact(vec![
        json!({"op": "comment", "comment": COMMENT}),
        json!({"op": "update", "table": "Address_Set", "where": differs, "row": {"addresses": addresses}}),
    ])?;
    Ok(results.last().and_then(|result| result["count"].as_u64()) == Some(1))
}

/// The name of the set of a DNS name in the default network.
pub fn set_name(name: &str, family: Family) -> String {
    address_set_name(&address_set_id(DEFAULT_NETWORK_CONTROLLER, name, family))
}
