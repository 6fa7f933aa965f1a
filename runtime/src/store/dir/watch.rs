//! The watch: the known state of a kind, and its changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use tracing::{info, warn};

use self::files::{Files, ObjectChange};
use super::{
    super::{Event, Kind, ObjectKey, Scope, undecodable::Undecodable, watched::Watched},
    fault::Fault,
    file::{self, FileError, Fingerprint},
    folder::Folder,
    manifest,
    notifications::Notifications,
};

/// How often everything is checked without a notification.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// The same without inotify.
const BLIND_LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The same while a folder is missing.
const MISSING_LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// A file is deleted once it has been gone for this long: editors move a file away before they write the new one.
const GONE_AFTER: Duration = Duration::from_millis(100);

/// How many faulty files the log names in one look.
const MAX_WARNINGS: usize = 20;

/// One watch. Its methods block.
pub(super) struct Watch<K> {
    folder: Arc<Folder>,
    scope: Scope,
    pub(super) notifications: Notifications,
    files: Files,
    /// All objects, while everything is read.
    list: Option<Vec<K>>,
    /// The faults of files that cannot be read now, or of all files of a namespace.
    faults: BTreeMap<ObjectKey, Fault>,
    /// Vanished files, and when that was noticed.
    gone: BTreeMap<ObjectKey, Instant>,
    /// Files that are probably meant as objects but misnamed, and why.
    misnamed: BTreeMap<PathBuf, Fault>,
    /// The folders of the objects, by their namespaces.
    folders: BTreeMap<String, Fingerprint>,
    /// Whether a folder may be a new one: files that it lacks were not deleted in it.
    is_anew: bool,
    /// Whether the whole content was delivered once.
    has_started: bool,
    looked: Instant,
    events: Vec<Event<K>>,
    reported: Reported,
    watched: Watched,
}

/// The faults as last reported.
#[derive(Default)]
struct Reported {
    /// Why absences mean nothing, until everything is in sync again.
    out_of_sync: Option<String>,
    undecodable: Undecodable,
    /// The faults of files by path.
    faults: BTreeMap<PathBuf, Fault>,
}

impl<K: Kind> Watch<K> {
    /// A watch before its first look.
    pub(super) fn new(folder: Arc<Folder>, scope: Scope, notifications: Notifications) -> Self {
        let watched = Watched::new::<K>(scope.to_string(), folder.bad_objects.clone());
        Self {
            folder,
            scope,
            notifications,
            files: Files::default(),
            list: None,
            faults: BTreeMap::new(),
            gone: BTreeMap::new(),
            misnamed: BTreeMap::new(),
            folders: BTreeMap::new(),
            is_anew: false,
            has_started: false,
            looked: Instant::now(),
            events: Vec::new(),
            reported: Reported::default(),
            watched,
        }
    }

    fn is_in_sync(&self) -> bool {
        self.has_started && self.reported.out_of_sync.is_none()
    }

    /// How long to wait for notifications before everything is checked.
    fn look_interval(&self) -> Duration {
        if !self.is_in_sync() {
            MISSING_LOOK_INTERVAL
        } else if self.notifications.is_incomplete {
            BLIND_LOOK_INTERVAL
        } else {
            LOOK_INTERVAL
        }
    }

    /// When to look again even if no notification arrives.
    pub(super) fn next_look(&self) -> Instant {
        let gone = self.gone.values().min().map(|since| *since + GONE_AFTER);
        let pause = self.notifications.next_pause();
        let first = gone.into_iter().chain(pause).min();
        let everything = self.looked + self.look_interval();
        first.map_or(everything, |first| first.min(everything))
    }

    /// Looks at places that may have changed, and returns the events.
    pub(super) fn look(&mut self) -> Vec<Event<K>> {
        let work = self.notifications.take();
        if work.lost {
            warn!(kind = %K::kind(&()), "changes of files were lost: reading all of them again");
            self.watched.gap();
        }
        let is_due = self.looked.elapsed() >= self.look_interval();
        if work.lost || work.everything || is_due || !self.is_in_sync() {
            let is_first = !self.has_started && self.reported.out_of_sync.is_none();
            self.look_at_everything(work.lost || is_first);
        }
        if self.look_at_files(work.files).is_none() {
            self.look_at_everything(false);
        }
        if !self.has_started {
            // A part of the content must not be taken for the whole.
            let is_reason = |event: &Event<K>| matches!(event, Event::OutOfSync(_));
            self.events.retain(is_reason);
        }
        if self.has_started {
            self.report_undecodable();
        }
        self.report();
        self.watched.in_sync(self.is_in_sync());
        mem::take(&mut self.events)
    }

    /// Looks at changed files, and at files that may be gone for good; `None` if a folder is missing.
    fn look_at_files(&mut self, mut files: BTreeSet<ObjectKey>) -> Option<()> {
        let gone = self.gone.iter();
        let due = gone.filter(|(_, since)| since.elapsed() >= GONE_AFTER);
        files.extend(due.map(|(key, _)| key.clone()));
        if files.is_empty() {
            return Some(());
        }
        for key in files {
            if !self.folder.path_of::<K>(&key.namespace).is_dir() {
                return None;
            }
            self.look_at_file(key);
        }
        Some(())
    }

    /// Looks at every folder, and reads the changed files, or all of them.
    fn look_at_everything(&mut self, read_all: bool) {
        self.looked = Instant::now();
        self.is_anew = !self.is_in_sync();
        if read_all {
            self.begin_list();
        }
        let mut looked = self.look_at_root();
        // A new folder is delivered as a whole, and not as single deletions.
        if looked.is_ok() && self.is_anew && self.list.is_none() {
            self.begin_list();
            looked = self.look_at_root();
        }
        match (looked, self.list.take()) {
            (Ok(()), None) => {}
            (Ok(()), Some(list)) => {
                if !self.is_in_sync() {
                    info!(kind = %K::kind(&()), objects = list.len(), "in sync with the folder");
                }
                self.has_started = true;
                self.reported.out_of_sync = None;
                self.events = vec![Event::Synced(list)];
            }
            (Err(reason), _) if self.reported.out_of_sync.as_ref() == Some(&reason) => {}
            (Err(reason), _) => {
                warn!(kind = %K::kind(&()), "out of sync: {reason}");
                self.events.push(Event::OutOfSync(reason.clone()));
                self.reported.out_of_sync = Some(reason);
            }
        }
    }

    /// Schedules a read of all files. An unreadable file is missing from the list, so it is delivered once it can be
    /// read, changed or not.
    fn begin_list(&mut self) {
        self.files.forget_versions();
        self.list = Some(Vec::new());
    }

    /// Looks at a file, and reads it if it has changed.
    fn look_at_file(&mut self, key: ObjectKey) {
        let since = self.gone.remove(&key);
        if self.notifications.is_being_written(&key) {
            return self.unread(key, &FileError::Changing);
        }
        let path = self.folder.file_of::<K>(&key);
        if let Ok(Some(file)) = file::fingerprint(&path)
            && let Some(known) = self.files.get(&key)
            && known.has_fingerprint(&file)
        {
            return;
        }
        match file::read(&path) {
            Ok(None) => self.absent(key, since),
            Ok(Some(content)) => {
                let file = &content.fingerprint;
                self.files.get_or_new(&key).set_fingerprint(file);
                match manifest::parse::<K>(&content.bytes, &key, file) {
                    Ok(manifest) => self.decoded(key, manifest.object),
                    Err(fault) => self.faulty(key, fault),
                }
            }
            Err(error @ FileError::Changing) => {
                self.notifications.note_writing(key.clone());
                self.unread(key, &error);
            }
            Err(error) => self.faulty(key, Fault::new(error.to_string())),
        }
    }

    fn decoded(&mut self, key: ObjectKey, object: K) {
        self.faults.remove(&key);
        let news = self.files.get_or_new(&key).take(&object);
        match (&mut self.list, news) {
            (Some(list), _) => list.push(object),
            (None, ObjectChange::Nothing) => {}
            (None, ObjectChange::Changed) => self.events.push(Event::Applied(object)),
            (None, ObjectChange::Replaced) => {
                self.events
                    .extend([Event::Deleted(key), Event::Applied(object)]);
            }
        }
    }

    /// Records a fault. The last known object stays valid.
    fn faulty(&mut self, key: ObjectKey, fault: Fault) {
        self.files.get_or_new(&key);
        self.faults.insert(key, fault);
    }

    /// A file exists but cannot be read now. That matters if it is missing from a list.
    fn unread(&mut self, key: ObjectKey, reason: impl ToString) {
        if self.list.is_some() {
            self.faulty(key, Fault::new(reason.to_string()));
        }
    }

    /// Whether the folder of a namespace is the one that was listed. A file that is missing from another one is not gone.
    fn is_in_place(&self, namespace: &str) -> bool {
        let now = file::fingerprint(&self.folder.path_of::<K>(namespace));
        let listed = self.folders.get(namespace);
        listed
            .zip(now.ok().flatten())
            .is_some_and(|(listed, now)| listed.is_same_file(&now))
    }

    /// Records a missing file, since the given time if that was noticed earlier.
    fn absent(&mut self, key: ObjectKey, since: Option<Instant>) {
        if !self.files.has(&key) {
            return;
        }
        let since = since.unwrap_or_else(Instant::now);
        let is_listed = self.is_anew && self.list.is_some() && self.is_in_place(&key.namespace);
        if !is_listed && since.elapsed() < GONE_AFTER {
            self.gone.insert(key.clone(), since);
            return self.unread(key, "it has just gone");
        }
        self.files.remove(&key);
        self.faults.remove(&key);
        if !self.files.are_in(&key.namespace) {
            let path = self.folder.path_of::<K>(&key.namespace);
            self.folder.populated().remove(&path);
        }
        self.events.push(Event::Deleted(key));
    }

    /// Reports the objects that exist and cannot be read.
    fn report_undecodable(&mut self) {
        let mut now: BTreeSet<ObjectKey> = self.faults.keys().cloned().collect();
        let files = &self.files;
        for all in self.faults.keys().filter(|key| key.is_all()) {
            if files.are_in(&all.namespace) {
                now.remove(all);
                now.extend(files.keys_in(&all.namespace));
            }
        }
        self.reported
            .undecodable
            .around(&mut self.events, now, |key| files.has(key));
    }

    /// Reports new faults of files and folders in the log and the metrics.
    fn report(&mut self) {
        let mut now = self.misnamed.clone();
        for (key, fault) in &self.faults {
            let path = if key.is_all() {
                self.folder.path_of::<K>(&key.namespace)
            } else {
                self.folder.file_of::<K>(key)
            };
            now.insert(path, fault.clone());
        }
        let is_new =
            |(path, fault): &(&PathBuf, &Fault)| self.reported.faults.get(*path) != Some(fault);
        let new: Vec<_> = now.iter().filter(is_new).collect();
        for (path, fault) in new.iter().take(MAX_WARNINGS) {
            warn!("cannot read {}{fault}", path.display());
        }
        if new.len() > MAX_WARNINGS {
            warn!("and {} more", new.len() - MAX_WARNINGS);
        }
        let over = self
            .reported
            .faults
            .keys()
            .filter(|path| !now.contains_key(*path));
        for path in over.take(MAX_WARNINGS) {
            info!("{} can be read again, or is gone", path.display());
        }
        self.watched.bad(now.len(), new.len(), || {
            let in_words =
                |(path, fault): (&PathBuf, &Fault)| (path.display().to_string(), fault.in_words());
            now.iter().map(in_words)
        });
        self.reported.faults = now;
    }
}

mod files;
mod namespaces;
#[cfg(test)]
mod tests;
