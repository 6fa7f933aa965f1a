//! The schedule of the stand-in: the tasks that follow from changed files, and the loop that runs them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use proto::api::{DnsName, DnsNameResolver, EgressFirewall, Family};

use super::{
    Counts, Follow,
    controller::{Controller, Rules, Written},
    files::{Changed, Files},
};
use crate::store::Store;

/// The polling interval of the store.
const PAUSE: Duration = Duration::from_millis(2);

/// From an EgressFirewall to the sets of its names.
const SETS: Duration = Duration::from_millis(10);

/// From the sets to the ACLs.
const ACLS: Duration = Duration::from_millis(7);

/// From the ACLs, or at the start from the sets, to the clean-up of sets without an ACL.
const CLEAN_UP: Duration = Duration::from_millis(5);

/// From the clean-up at the start to the ACLs.
const LATE_ACLS: Duration = Duration::from_millis(10);

/// The longest time between the stand-in and the ovn-writer in every second case, as measured with real programs.
const CLOSE: Duration = Duration::from_millis(10);

/// A delayed task.
enum Task {
    MakeSets {
        namespace: String,
    },
    CleanUp,
    WriteRules {
        namespace: String,
    },
    WriteStatus {
        name: String,
        addresses: BTreeSet<String>,
    },
    ForgetStatus {
        name: String,
    },
    Publish {
        to: Store,
        file: Changed,
    },
}

/// The stand-in's state.
pub(super) struct Agenda {
    source: Store,
    files: Files,
    follow: Follow,
    random: fastrand::Rng,
    controllers: Vec<Controller>,
    tasks: BTreeMap<(Instant, u64), Task>,
    count: u64,
    /// Until when each file's changes are delayed: they arrive in their order.
    heard: BTreeMap<PathBuf, [Instant; 2]>,
    rules: BTreeMap<String, Rules>,
    /// The DNS name of the object in each file.
    objects: BTreeMap<PathBuf, String>,
    statuses: BTreeMap<String, BTreeSet<String>>,
    has_started: bool,
}

impl Agenda {
    pub(super) fn new(source: &Store, follow: Follow, folders: &[&Path]) -> Self {
        let seed = match &follow {
            Follow::Randomly { seed, .. } => *seed,
            _ => 0,
        };
        Self {
            source: source.clone(),
            files: Files::default(),
            follow,
            random: fastrand::Rng::with_seed(seed),
            controllers: folders
                .iter()
                .map(|folder| Controller::new((*folder).to_owned()))
                .collect(),
            tasks: BTreeMap::new(),
            count: 0,
            heard: BTreeMap::new(),
            rules: BTreeMap::new(),
            objects: BTreeMap::new(),
            statuses: BTreeMap::new(),
            has_started: false,
        }
    }

    /// Runs until it is told to end; remaining tasks are dropped.
    pub(super) fn run(mut self, counts: &Counts) {
        while !counts.ends.load(Ordering::Relaxed) {
            for file in self.files.look(self.source.path()) {
                self.schedule(file);
            }
            self.has_started = true;
            while let Some(first) = self.tasks.first_entry()
                && first.key().0 <= Instant::now()
            {
                let ((due, _), task) = first.remove_entry();
                self.carry_out(task, counts);
                let late = u64::try_from(due.elapsed().as_millis()).unwrap_or(u64::MAX);
                counts.latest.fetch_max(late, Ordering::Relaxed);
            }
            if self.tasks.is_empty() {
                counts.idle.fetch_add(1, Ordering::Relaxed);
            }
            thread::sleep(PAUSE);
        }
    }

    fn schedule(&mut self, file: Changed) {
        let now = Instant::now();
        if file.is_of("dnsnameresolvers") {
            self.hear(file, now);
        } else if file.is_of("egressfirewalls") && self.follow.has_rules() {
            let namespace = file.namespace().to_owned();
            match file.text.as_deref().map(serde_saphyr::from_str) {
                None => self.firewall(namespace, None, now),
                Some(Ok(firewall)) => self.firewall(namespace, Some(firewall), now),
                // The file is half written.
                Some(Err(_)) => {}
            }
        }
    }

    /// Handles a changed EgressFirewall: sets first, then ACLs, then the clean-up. At the start the clean-up comes too
    /// early.
    fn firewall(&mut self, namespace: String, firewall: Option<EgressFirewall>, now: Instant) {
        let is_deleted = firewall.is_none();
        let rules = firewall
            .map(|it| rules_of(&it, &self.follow))
            .unwrap_or_default();
        let before = self
            .rules
            .insert(namespace.clone(), rules)
            .unwrap_or_default();
        if is_deleted {
            let used: BTreeSet<&String> = self
                .rules
                .values()
                .flatten()
                .map(|(_, name)| name)
                .collect();
            for (_, name) in before.iter().filter(|(_, name)| !used.contains(name)) {
                self.controllers
                    .iter_mut()
                    .for_each(|controller| controller.forget(name));
            }
        }
        let sets = now + SETS;
        self.at(
            sets,
            Task::MakeSets {
                namespace: namespace.clone(),
            },
        );
        let acls = if self.has_started || !self.follow.has_objects() {
            sets + ACLS
        } else {
            self.at(sets + CLEAN_UP, Task::CleanUp);
            sets + CLEAN_UP + LATE_ACLS
        };
        self.at(acls, Task::WriteRules { namespace });
        self.at(acls + CLEAN_UP, Task::CleanUp);
    }

    /// Handles a changed DNSNameResolver, which the stand-in and the ovn-writer see at different times.
    fn hear(&mut self, file: Changed, now: Instant) {
        let (row, publish) = match &self.follow {
            Follow::Never => return,
            Follow::Late(behind) | Follow::StatusesOnly(behind) => (now + *behind, None),
            Follow::Randomly {
                published, apart, ..
            } => {
                let (published, apart) = (published.clone(), *apart);
                let last = self.heard.entry(file.path.clone()).or_insert([now; 2]);
                // Existing objects are in its first list.
                if self.has_started {
                    let longest = if self.random.bool() { CLOSE } else { apart };
                    let later = now + longest.mul_f64(self.random.f64());
                    let is_first = self.random.bool();
                    let [row, publish] = if is_first { [now, later] } else { [later, now] };
                    *last = [row.max(last[0]), publish.max(last[1])];
                }
                (last[0], Some((last[1], published)))
            }
        };
        match file.text.as_deref().map(serde_saphyr::from_str) {
            Some(object) => {
                let (name, addresses) = status_of(object.expect("a DNSNameResolver"));
                self.objects.insert(file.path.clone(), name.clone());
                self.at(row, Task::WriteStatus { name, addresses });
            }
            None => {
                if let Some(name) = self.objects.remove(&file.path) {
                    self.at(row, Task::ForgetStatus { name });
                }
            }
        }
        if let Some((at, to)) = publish {
            self.at(at, Task::Publish { to, file });
        }
    }

    fn at(&mut self, at: Instant, task: Task) {
        self.count += 1;
        self.tasks.insert((at, self.count), task);
    }

    fn carry_out(&mut self, task: Task, counts: &Counts) {
        match task {
            Task::MakeSets { namespace } => {
                let names: Vec<String> = self
                    .rules
                    .get(&namespace)
                    .into_iter()
                    .flatten()
                    .map(|(_, name)| name.clone())
                    .collect();
                for controller in &mut self.controllers {
                    controller
                        .make_namespace(&namespace)
                        .expect("a namespace is made");
                    let (statuses, follow) = (&self.statuses, &self.follow);
                    let status = |name: &str| statuses.get(name).cloned().unwrap_or_default();
                    let addresses = |name: &str| follow.has_objects().then(|| status(name));
                    controller
                        .make_sets(&names, addresses)
                        .expect("sets are made");
                }
            }
            Task::CleanUp => {
                for controller in &mut self.controllers {
                    controller.clean_up().expect("sets are deleted");
                }
            }
            Task::WriteRules { namespace } => {
                let rules = self.rules.get(&namespace).cloned().unwrap_or_default();
                for controller in &mut self.controllers {
                    controller
                        .write_rules(&namespace, &rules)
                        .expect("ACLs are written");
                }
            }
            Task::WriteStatus { name, addresses } => self.write_status(name, addresses, counts),
            Task::ForgetStatus { name } => {
                self.statuses.remove(&name);
            }
            Task::Publish { to, file } => publish(&to, &file),
        }
    }

    fn write_status(&mut self, name: String, addresses: BTreeSet<String>, counts: &Counts) {
        for controller in &mut self.controllers {
            for family in Family::ALL {
                match controller.replace(&name, family, &addresses) {
                    Written::Equal => {}
                    Written::Replaced => {
                        counts.writes.fetch_add(1, Ordering::Relaxed);
                    }
                    Written::Failed => {
                        counts.failed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        }
        self.statuses.insert(name, addresses);
        counts.statuses.fetch_add(1, Ordering::Relaxed);
    }
}

/// The rules with a DNS name, under the name of their sets.
fn rules_of(firewall: &EgressFirewall, follow: &Follow) -> Rules {
    let named = firewall.spec.egress.iter().filter_map(|rule| {
        let written = rule.to.dns_name.as_deref()?;
        let name = if follow.has_objects() {
            DnsName::parse(written).ok()?.to_string()
        } else {
            written.to_owned()
        };
        Some((rule.rule_type, name))
    });
    named.collect()
}

fn status_of(object: DnsNameResolver) -> (String, BTreeSet<String>) {
    let entries = object.status.unwrap_or_default().resolved_names.into_iter();
    let addresses = entries.flat_map(|entry| entry.resolved_addresses);
    (
        object.spec.name,
        addresses.map(|address| address.ip.into()).collect(),
    )
}

/// Shows the ovn-writer a file, atomically.
fn publish(to: &Store, file: &Changed) {
    let target = to.path().join(&file.path);
    let Some(text) = &file.text else {
        // A short-lived file may never have been published.
        let _gone = fs::remove_file(target);
        return;
    };
    // The store ignores a hidden file.
    let new = to.path().join(".published");
    fs::write(&new, text).expect("a manifest");
    fs::create_dir_all(target.parent().expect("its folder")).expect("the folder of the objects");
    fs::rename(new, target).expect("a manifest");
}
