//! The watch: what is known of a kind, and what changes in it.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    mem,
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use notify::RecommendedWatcher;
use tracing::{info, warn};

use self::files::{Files, News};
use super::{
    super::{
        Event, Kind, ObjectKey, Scope, names::is_namespace, undecodable::Undecodable,
        watched::Watched,
    },
    file::{self, Identity, Print, ReadError},
    hints::{Hints, Work},
    layout::file_name,
    manifest::{self, Manifest},
    objects::Folder,
};

/// How often everything is looked at without a hint.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// The same where notifications cannot be had.
const BLIND_LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The same while a folder is missing.
const MISSING_LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// A file is deleted once it has been gone for this long: editors move a file away before they write the new one.
const GONE_AFTER: Duration = Duration::from_millis(100);

/// One watch. Its methods block.
pub(super) struct Watch<K> {
    folder: Arc<Folder>,
    scope: Scope,
    hints: Arc<Hints>,
    /// `None` if notifications cannot be had.
    watcher: Option<RecommendedWatcher>,
    look_interval: Duration,
    files: Files,
    /// All objects, while everything is read.
    list: Option<BTreeMap<ObjectKey, K>>,
    /// Why files do not decode now.
    faults: BTreeMap<ObjectKey, String>,
    /// Other files that are there and were not read when everything was: they are being written, or have just gone.
    unread: BTreeSet<ObjectKey>,
    /// Objects that were last reported as not readable.
    undecodable: Undecodable,
    /// Files that are not there any more, and when that was seen.
    gone: BTreeMap<ObjectKey, Instant>,
    /// Files that are meant as objects and cannot be, and why.
    misnamed: BTreeMap<PathBuf, &'static str>,
    /// Namespaces whose folders were read at the last look at everything.
    found: BTreeSet<String>,
    /// Namespaces whose folders cannot be read, and why.
    unreadable: BTreeMap<String, String>,
    /// Which folders the objects were in.
    identities: BTreeMap<PathBuf, Identity>,
    /// Whether a folder may be another one than that in which its files were: what it lacks was not deleted there.
    is_anew: bool,
    state: State,
    looked: Instant,
    events: Vec<Event<K>>,
    complaints: usize,
    watched: Watched,
}

#[derive(Debug, Eq, PartialEq)]
enum State {
    /// Nothing was delivered yet, but perhaps for what reason.
    Starting(Option<String>),
    InSync,
    OutOfSync(String),
}

impl<K: Kind> Watch<K> {
    /// A watch that has not looked yet.
    pub(super) fn new(folder: Arc<Folder>, scope: Scope) -> Self {
        let plural = K::plural(&()).into_owned();
        let hints = Arc::new(Hints::new(folder.root.clone(), plural));
        let handler = Arc::clone(&hints);
        let watcher = notify::recommended_watcher(move |event| handler.handle(event));
        let watcher = watcher
            .inspect_err(|error| warn!("no notifications of changed files: {error}"))
            .ok();
        let watched = Watched::new::<K>(scope.to_string(), folder.bad_objects.clone());
        Self {
            look_interval: if watcher.is_some() {
                LOOK_INTERVAL
            } else {
                BLIND_LOOK_INTERVAL
            },
            folder,
            scope,
            hints,
            watcher,
            files: Files::default(),
            list: None,
            faults: BTreeMap::new(),
            unread: BTreeSet::new(),
            undecodable: Undecodable::default(),
            gone: BTreeMap::new(),
            misnamed: BTreeMap::new(),
            found: BTreeSet::new(),
            unreadable: BTreeMap::new(),
            identities: BTreeMap::new(),
            is_anew: false,
            state: State::Starting(None),
            looked: Instant::now(),
            events: Vec::new(),
            complaints: 0,
            watched,
        }
    }

    /// A watch that learns of changes from its hints alone.
    #[cfg(test)]
    pub(super) fn blind(folder: Arc<Folder>, scope: Scope) -> Self {
        let mut watch = Self::new(folder, scope);
        watch.watcher = None;
        watch.look_interval = Duration::from_secs(3600);
        watch
    }

    /// Where notifications go.
    pub(super) fn hints(&self) -> &Arc<Hints> {
        &self.hints
    }

    /// When to look again even if no hint arrives.
    pub(super) fn next_look(&self) -> Instant {
        let interval = match self.state {
            State::InSync => self.look_interval,
            State::Starting(_) | State::OutOfSync(_) => MISSING_LOOK_INTERVAL,
        };
        [
            Some(self.looked + interval),
            self.gone.values().min().map(|since| *since + GONE_AFTER),
            self.hints.next_pause(),
        ]
        .into_iter()
        .flatten()
        .min()
        .unwrap_or(self.looked)
    }

    /// Looks where something may have changed, and returns what did.
    pub(super) fn look(&mut self) -> Vec<Event<K>> {
        let Work {
            lost,
            everything,
            files,
        } = self.hints.take();
        let started = Instant::now();
        if lost {
            warn!(kind = %K::kind(&()), "changes of files were lost: reading all of them again");
            self.watched.gap();
        }
        let interval_is_over = self.looked + self.look_interval <= started;
        if lost || everything || interval_is_over || self.state != State::InSync {
            self.look_at_everything(lost);
        }
        // Out of the list before they are looked at, so that no outcome makes the next look come at once again.
        let (due, not_yet) = mem::take(&mut self.gone)
            .into_iter()
            .partition(|(_, since)| *since + GONE_AFTER <= started);
        self.gone = not_yet;
        if !self.look_at_files(files, due) {
            self.look_at_everything(false);
        }
        if matches!(self.state, State::Starting(_)) {
            // A part of the content would be taken for the whole.
            let is_reason = |event: &Event<K>| matches!(event, Event::OutOfSync(_));
            self.events.retain(is_reason);
        } else {
            self.report_undecodable();
        }
        self.report();
        mem::take(&mut self.events)
    }

    /// Looks at files that changed and at files that may be gone for good; `false` if a folder is missing.
    fn look_at_files(
        &mut self,
        changed: HashSet<ObjectKey>,
        due: BTreeMap<ObjectKey, Instant>,
    ) -> bool {
        let mut folders: BTreeMap<String, OwnedFd> = BTreeMap::new();
        let keys: BTreeSet<ObjectKey> = changed.into_iter().chain(due.keys().cloned()).collect();
        // Each is taken out when it is looked at, here or with everything.
        self.gone.extend(due);
        for key in keys {
            if !self.is_in_scope(&key.namespace) {
                continue;
            }
            if !folders.contains_key(&key.namespace) {
                let Some(folder) = self.open_namespace(&key.namespace) else {
                    return false;
                };
                folders.insert(key.namespace.clone(), folder);
            }
            if let Some(folder) = folders.get(&key.namespace) {
                self.look_at_file(folder, key, true);
            }
        }
        true
    }

    fn is_in_scope(&self, namespace: &str) -> bool {
        match &self.scope {
            Scope::All => is_namespace(namespace),
            Scope::Namespace(only) => only == namespace,
        }
    }

    fn open_namespace(&self, namespace: &str) -> Option<OwnedFd> {
        let root = self.folder.open_root().ok()?;
        let namespace = file::open_in(root, namespace).ok()??;
        file::open_kind(namespace, &K::plural(&())).ok()?
    }

    /// Looks at every folder, and reads the files that show a change, or all of them.
    fn look_at_everything(&mut self, read_all: bool) {
        self.looked = Instant::now();
        let misnamed_before = mem::take(&mut self.misnamed);
        let is_first = self.state == State::Starting(None);
        self.list = (read_all || is_first).then(BTreeMap::new);
        self.is_anew = self.state != State::InSync;
        let mut missing = self.look_at_root();
        // Whoever follows is told of the whole, and not of deletions one by one.
        if missing.is_none() && self.is_anew && !is_first {
            // Nothing is kept of what was delivered, so all of it is read.
            self.list = Some(BTreeMap::new());
            missing = self.look_at_root();
        }
        self.is_anew = false;
        let list = self.list.take();
        let misnamed = self.misnamed.iter();
        let new: Vec<_> = misnamed
            .filter(|(path, _)| !misnamed_before.contains_key(*path))
            .map(|(path, reason)| format!("{}: {reason}", path.display()))
            .collect();
        for complaint in new {
            self.complain(&complaint);
        }
        match (missing, list) {
            (None, None) => {}
            (None, Some(list)) => self.synced(list),
            (Some(reason), _) => self.out_of_sync(reason),
        }
    }

    fn synced(&mut self, list: BTreeMap<ObjectKey, K>) {
        if self.state != State::InSync {
            info!(kind = %K::kind(&()), objects = list.len(), "in sync with the folder");
        }
        self.state = State::InSync;
        let is_unread = |key: &ObjectKey| !list.contains_key(key);
        self.unread = self.files.keys().filter(is_unread).collect();
        for key in &self.unread {
            self.files.entry(key).was_missed();
        }
        self.unread.retain(|key| !self.faults.contains_key(key));
        self.events = vec![Event::Synced(list.into_values().collect())];
    }

    fn out_of_sync(&mut self, reason: String) {
        let known = match &self.state {
            State::Starting(known) => known.as_ref(),
            State::InSync => None,
            State::OutOfSync(known) => Some(known),
        };
        if known == Some(&reason) {
            return;
        }
        warn!(kind = %K::kind(&()), "out of sync: {reason}");
        self.events.push(Event::OutOfSync(reason.clone()));
        self.state = match self.state {
            State::Starting(_) => State::Starting(Some(reason)),
            State::InSync | State::OutOfSync(_) => State::OutOfSync(reason),
        };
    }

    /// Looks at a file, unless `read` is not set and it shows no change.
    fn look_at_file(&mut self, folder: impl AsFd, key: ObjectKey, read: bool) {
        let since = self.gone.remove(&key);
        if self.hints.is_being_written(&key) {
            return;
        }
        let name = file_name(&key.name);
        if !read
            && let Some(known) = self.files.get(&key)
            && matches!(file::print(folder.as_fd(), &name), Ok(Some(now)) if known.has_print(&now))
        {
            return;
        }
        let content = match file::read(folder, &name) {
            Ok(Some(content)) => content,
            Ok(None) => return self.absent(key, since),
            Err(ReadError::Changing) => return self.hints.note_writing(&key),
            Err(ReadError::Fault(fault)) => return self.faulty(key, None, fault.to_string()),
            Err(ReadError::Io(error)) => return self.faulty(key, None, format!(": {error}")),
        };
        match manifest::parse::<K>(&content.bytes, &key, content.identity) {
            Ok(Manifest { object, .. }) => self.decoded(key, content.print, object),
            Err(fault) => self.faulty(key, content.print, fault.to_string()),
        }
    }

    fn decoded(&mut self, key: ObjectKey, print: Option<Print>, object: K) {
        if self.faults.remove(&key).is_some() {
            info!(kind = %K::kind(&()), %key, "decodes again");
        }
        self.unread.remove(&key);
        let known = self.files.entry(&key);
        known.set_print(print);
        let news = known.take(&object);
        if let Some(list) = &mut self.list {
            list.insert(key, object);
            return;
        }
        match news {
            News::Nothing => return,
            News::Changed => {}
            News::Replaced => self.events.push(Event::Deleted(key)),
        }
        self.events.push(Event::Applied(object));
    }

    /// What was known of the object holds.
    fn faulty(&mut self, key: ObjectKey, print: Option<Print>, fault: String) {
        self.files.entry(&key).set_print(print);
        self.unread.remove(&key);
        if self.faults.get(&key) != Some(&fault) {
            let folder = self.folder.path_of::<K>(&key.namespace);
            let path = folder.join(file_name(&key.name));
            self.complain(&format!("{}{fault}", path.display()));
            self.faults.insert(key, fault);
        }
    }

    /// A file is not there, since then if that was seen before.
    fn absent(&mut self, key: ObjectKey, since: Option<Instant>) {
        if !self.files.contains(&key) {
            return;
        }
        let since = since.unwrap_or_else(Instant::now);
        let is_listed = self.is_anew && self.list.is_some();
        if !is_listed && since.elapsed() < GONE_AFTER {
            self.gone.insert(key, since);
            return;
        }
        self.files.remove(&key);
        self.faults.remove(&key);
        self.unread.remove(&key);
        if self.files.is_empty_in(&key.namespace) {
            let path = self.folder.path_of::<K>(&key.namespace);
            self.folder.populated().remove(&path);
        }
        self.events.push(Event::Deleted(key));
    }
}

mod files;
mod namespaces;
mod report;
#[cfg(test)]
mod tests;
