//! ovn-kubernetes, as far as address sets of DNS names see it: what its programs were measured to do, done by `ovn-nbctl`.

mod own;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use proto::api::{
    DEFAULT_NETWORK_CONTROLLER, DnsNameResolverStatus, Family, address_set_id, address_set_name,
};

pub use self::own::OwnResolver;
use crate::{
    northbound::{Northbound, nbctl, rows},
    store::Store,
    wait::eventually,
};

/// How often the store is looked at.
const PAUSE: Duration = Duration::from_millis(5);

/// `ovnkube-controller` with `--enable-dns-name-resolver`: on any difference of a status, even of one time, it makes the whole
/// `addresses` column of both sets equal to that status, one update a family; if a row is equal already it sends nothing, and if
/// there is none it fails and forgets. It repairs nothing. It ends when this is dropped.
#[derive(Debug)]
pub struct OvnKube {
    counts: Arc<Counts>,
    controller: Option<thread::JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Counts {
    statuses: AtomicUsize,
    late: AtomicUsize,
    writes: AtomicUsize,
    ends: AtomicUsize,
}

impl OvnKube {
    /// Makes the sets of these names and an ACL for each, and follows the statuses of the store from now on, each so long after
    /// it was written.
    pub fn start(
        folder: &Path,
        store: &Store,
        northbound: &Northbound,
        names: &[&str],
        behind: Duration,
    ) -> Self {
        northbound.create_namespace_set();
        for (index, name) in (0..).zip(names) {
            let sets = Family::ALL.map(|family| set_name(name, family));
            for (set, family) in sets.iter().zip(Family::ALL) {
                northbound.create_set(set, name, family, "[]");
            }
            let sets = sets.each_ref().map(String::as_str);
            northbound.create_acl("allow", 10_000 - index, &sets, true);
        }
        Self::follow(folder, store, behind)
    }

    /// Follows the statuses of the store from now on, whatever sets there are.
    pub fn follow(folder: &Path, store: &Store, behind: Duration) -> Self {
        let counts = Arc::new(Counts::default());
        let mut controller = Controller {
            folder: folder.to_owned(),
            store: store.clone(),
            counts: Arc::clone(&counts),
            behind,
            statuses: BTreeMap::new(),
            late: VecDeque::new(),
        };
        let controller = thread::spawn(move || {
            while controller.counts.ends.load(Ordering::Relaxed) == 0 {
                controller.look();
                thread::sleep(PAUSE);
            }
        });
        Self {
            counts,
            controller: Some(controller),
        }
    }

    /// How many statuses it will yet hear of, of those that were written a moment ago.
    pub fn late(&self) -> usize {
        self.counts.late.load(Ordering::Relaxed)
    }

    /// Waits until it has taken so many statuses over.
    pub async fn took(&self, statuses: usize) {
        eventually("ovn-kubernetes takes statuses over", async || {
            let (taken, _) = self.counts();
            (taken >= statuses)
                .then_some(())
                .ok_or_else(|| taken.to_string())
        })
        .await;
    }

    /// How many statuses it has seen, and how many rows it has written by them.
    pub fn counts(&self) -> (usize, usize) {
        let Counts {
            statuses, writes, ..
        } = &*self.counts;
        (
            statuses.load(Ordering::Relaxed),
            writes.load(Ordering::Relaxed),
        )
    }
}

impl Drop for OvnKube {
    fn drop(&mut self) {
        self.counts.ends.store(1, Ordering::Relaxed);
        if let Some(controller) = self.controller.take()
            && controller.join().is_err()
            && !thread::panicking()
        {
            panic!("the stub of ovn-kubernetes panicked");
        }
    }
}

struct Controller {
    folder: PathBuf,
    store: Store,
    counts: Arc<Counts>,
    behind: Duration,
    /// The last one of each name.
    statuses: BTreeMap<String, DnsNameResolverStatus>,
    /// Those that it has not heard of yet, and since when they are there.
    late: VecDeque<(Instant, String, DnsNameResolverStatus)>,
}

impl Controller {
    fn look(&mut self) {
        for object in self.store.objects() {
            let status = object.status.unwrap_or_default();
            if self.statuses.get(&object.spec.name) == Some(&status) {
                continue;
            }
            let name = object.spec.name;
            self.late
                .push_back((Instant::now(), name.clone(), status.clone()));
            self.statuses.insert(name, status);
        }
        while let Some((_, name, status)) = self
            .late
            .pop_front_if(|(since, ..)| since.elapsed() >= self.behind)
        {
            let addresses = status.resolved_names.iter();
            let addresses = addresses.flat_map(|entry| &entry.resolved_addresses);
            let addresses: BTreeSet<_> = addresses.map(|address| address.ip.as_str()).collect();
            for family in Family::ALL {
                self.write(&name, family, &addresses);
            }
            self.counts.statuses.fetch_add(1, Ordering::Relaxed);
        }
        self.counts.late.store(self.late.len(), Ordering::Relaxed);
    }

    fn write(&self, name: &str, family: Family, addresses: &BTreeSet<&str>) {
        // An error means that the database is away: the next status difference brings it.
        let row = rows(&self.folder).map(|mut rows| {
            rows.retain(|row| row.is_of(name, family));
            rows.pop()
        });
        let Ok(Some(row)) = row else {
            return;
        };
        let is_v6 = family == Family::V6;
        let addresses = addresses.iter().filter(|text| text.contains(':') == is_v6);
        let addresses: BTreeSet<_> = addresses.map(|text| (*text).to_owned()).collect();
        if row.addresses == addresses {
            return;
        }
        let quoted: Vec<_> = addresses.iter().map(|text| format!("\"{text}\"")).collect();
        let column = format!("addresses=[{}]", quoted.join(","));
        let args = ["set", "Address_Set", &row.uuid, &column];
        if nbctl(&self.folder, &args).is_ok() {
            self.counts.writes.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The name of the set of a DNS name in the default network.
pub fn set_name(name: &str, family: Family) -> String {
    address_set_name(&address_set_id(DEFAULT_NETWORK_CONTROLLER, name, family))
}

impl Northbound {
    /// Makes an address set of a DNS name, without our mark. `addresses` as `ovn-nbctl` wants them; `[]` for none.
    ///
    /// # Panics
    /// If the server refuses it, as with everything here.
    pub fn create_set(&self, set_name: &str, name: &str, family: Family, addresses: &str) {
        let columns = [
            format!("name={set_name}"),
            "external_ids:k8s.ovn.org/owner-type=EgressFirewallDNS".to_owned(),
            "external_ids:k8s.ovn.org/owner-controller=default-network-controller".to_owned(),
            format!("external_ids:k8s.ovn.org/name=\"{name}\""),
            format!("external_ids:ip-family={family}"),
            format!(
                "external_ids:k8s.ovn.org/id=\"{}\"",
                address_set_id(DEFAULT_NETWORK_CONTROLLER, name, family)
            ),
            format!("addresses={addresses}"),
        ];
        let columns = columns.iter().map(String::as_str);
        let args: Vec<_> = ["create", "Address_Set"]
            .into_iter()
            .chain(columns)
            .collect();
        self.nbctl(&args).unwrap();
    }

    /// Makes a set that is not for DNS names, by which ovn-kubernetes shows.
    pub fn create_namespace_set(&self) {
        let columns = [
            "name=a77",
            "external_ids:k8s.ovn.org/owner-type=Namespace",
            "external_ids:k8s.ovn.org/owner-controller=default-network-controller",
            "external_ids:k8s.ovn.org/name=team",
        ];
        let args = [&["create", "Address_Set"], &columns[..]].concat();
        self.nbctl(&args).unwrap();
    }

    /// Makes the ACL of a rule of the namespace `team`, as ovn-kubernetes makes it, and says whose it is if it is `owned`.
    /// Returns its uuid.
    pub fn create_acl(&self, action: &str, priority: u16, sets: &[&str], owned: bool) -> String {
        let rule = match_of(sets);
        let (action, priority) = (format!("action={action}"), format!("priority={priority}"));
        let mut args = vec![
            "--id=@acl",
            "create",
            "ACL",
            "direction=to-lport",
            &action,
            &priority,
            &rule,
        ];
        let owner = [
            "external_ids:k8s.ovn.org/owner-controller=default-network-controller",
            "external_ids:k8s.ovn.org/owner-type=EgressFirewall",
            "external_ids:k8s.ovn.org/name=team",
        ];
        if owned {
            args.extend(owner);
        }
        // A rule must be somewhere, or the server takes it away.
        let switch = ["--may-exist", "ls-add", "switch", "--"];
        let add = ["--", "add", "Logical_Switch", "switch", "acls", "@acl"];
        let whole = [&switch[..], &args, &add].concat();
        self.nbctl(&whole).unwrap()
    }

    /// Makes an ACL refer to other sets, as ovn-kubernetes does that finds its own rule in another form.
    pub fn turn_acl(&self, uuid: &str, sets: &[&str]) {
        self.nbctl(&["set", "ACL", uuid, &match_of(sets)]).unwrap();
    }

    /// Takes such an ACL away.
    pub fn remove_acl(&self, uuid: &str) {
        let args = ["remove", "Logical_Switch", "switch", "acls", uuid];
        self.nbctl(&args).unwrap();
    }
}

/// The column of a rule for these sets.
fn match_of(sets: &[&str]) -> String {
    let sets: Vec<_> = sets
        .iter()
        .map(|set| format!("ip4.dst == ${set}"))
        .collect();
    format!("match=\"({}) && inport == @a9\"", sets.join(" || "))
}
