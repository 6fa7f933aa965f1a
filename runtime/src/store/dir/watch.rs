//! The watch: the known state of a kind, and its changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use kube::ResourceExt;
use rapidhash::v3::rapidhash_v3;
use tracing::{info, warn};

use super::{
    super::{Event, Kind, ObjectKey, Scope, undecodable::Undecodable, watched::Watched},
    file,
    folder::{Folder, Listing},
    notifications::Notifications,
};

/// A file is deleted once it has been gone for this long: editors move a file away before they write the new one.
const GONE_AFTER: Duration = Duration::from_millis(100);

/// How many faulty files the log names at once.
const MAX_WARNINGS: usize = 20;

/// One watch. Its methods block.
pub(super) struct Watch<K> {
    folder: Arc<Folder>,
    scope: Scope,
    pub(super) notifications: Notifications,
    files: BTreeMap<ObjectKey, KnownFile>,
    /// The faults of the last list.
    listing_faults: BTreeMap<String, String>,
    /// The keys that stand for the objects of unreadable namespaces.
    unreadable: BTreeSet<ObjectKey>,
    /// Why the content is unknown.
    out_of_sync: Option<String>,
    /// Why files cannot be read, or what has no effect in them.
    faults: BTreeMap<ObjectKey, String>,
    events: Vec<Event<K>>,
    undecodable: Undecodable,
    /// All faults as last reported.
    reported: BTreeMap<String, String>,
    watched: Watched,
}

/// The last known state of a file.
#[derive(Default)]
struct KnownFile {
    /// The fingerprint of the file at its last read, if that gave an object.
    fingerprint: Option<u64>,
    /// The hash of the version that was last delivered.
    version: Option<u64>,
    /// When the file was first missing.
    missing_since: Option<Instant>,
}

impl<K: Kind> Watch<K> {
    /// A watch before its first scan.
    pub(super) fn new(folder: Arc<Folder>, scope: Scope, notifications: Notifications) -> Self {
        let watched = Watched::new::<K>(scope.to_string(), folder.bad_objects.clone());
        Self {
            folder,
            scope,
            notifications,
            files: BTreeMap::new(),
            listing_faults: BTreeMap::new(),
            unreadable: BTreeSet::new(),
            out_of_sync: Some("it is not read yet".to_owned()),
            faults: BTreeMap::new(),
            events: Vec::new(),
            undecodable: Undecodable::default(),
            reported: BTreeMap::new(),
            watched,
        }
    }

    /// Compares the folder with the known state where it may have changed, and returns the events.
    pub(super) fn reconcile(&mut self) -> Vec<Event<K>> {
        self.notifications.read_events();
        let now = Instant::now();
        if now >= self.notifications.next_list {
            self.scan();
        }
        if self.out_of_sync.is_none() {
            let due = self.notifications.due.extract_if(.., |_, due| *due <= now);
            for (key, _) in due.collect::<Vec<_>>() {
                self.reconcile_file(key, true);
            }
            let files = &self.files;
            let is_bad =
                |key: &&ObjectKey| files.get(key).is_none_or(|it| it.fingerprint.is_none());
            let unread = self.faults.keys().filter(is_bad);
            let unread = unread.chain(&self.unreadable).cloned().collect();
            self.undecodable
                .around(&mut self.events, unread, |key| files.contains_key(key));
        }
        self.report();
        self.watched.in_sync(self.out_of_sync.is_none());
        mem::take(&mut self.events)
    }

    /// Lists all files, and reads those that changed.
    fn scan(&mut self) {
        let notifications = &mut self.notifications;
        let visit = |path: &Path, namespace: Option<&str>| notifications.watch(path, namespace);
        let must_exist = self.scope != Scope::All && !self.files.is_empty();
        match self.folder.list::<K>(&self.scope, must_exist, visit) {
            Ok(listing) => self.apply_listing(listing),
            Err(error) => self.set_out_of_sync(format!("{error:#}")),
        }
        let is_blind = self.notifications.is_incomplete || self.out_of_sync.is_some();
        let interval = Duration::from_secs(if is_blind { 1 } else { 10 });
        self.notifications.next_list = Instant::now() + interval;
    }

    /// Missing files mean nothing until the next list.
    fn set_out_of_sync(&mut self, reason: String) {
        self.notifications.due.clear();
        if self.out_of_sync.as_ref() != Some(&reason) {
            warn!(kind = %K::kind(&()), "out of sync: {reason}");
            self.events.push(Event::OutOfSync(reason.clone()));
            self.out_of_sync = Some(reason);
        }
    }

    fn apply_listing(&mut self, listing: Listing) {
        let is_resync = self.out_of_sync.take().is_some();
        if is_resync {
            // Consumers may not have the current objects, so all are delivered.
            let files = self.files.values_mut();
            files.for_each(|file| *file = KnownFile::default());
        }
        let mut keys = listing.keys;
        self.listing_faults = listing.faults;
        self.unreadable = keys.extract_if(.., |key| key.is_all()).collect();
        // A list may lack a file that is renamed meanwhile.
        keys.extend(self.files.keys().cloned());
        for key in keys {
            if is_resync || !self.notifications.due.contains_key(&key) {
                self.reconcile_file(key, false);
            }
        }
        if is_resync {
            let objects = self.events.drain(..).filter_map(|event| match event {
                Event::Applied(object) => Some(object),
                _ => None,
            });
            let objects: Vec<K> = objects.collect();
            info!(kind = %K::kind(&()), objects = objects.len(), "in sync with the folder");
            self.events = vec![Event::Synced(objects)];
        }
    }

    /// Reads a file if it has changed. Two writes within a tick of the kernel's clock may have one fingerprint, so a
    /// notified change is read in any case.
    fn reconcile_file(&mut self, key: ObjectKey, is_notified: bool) {
        let known = self.files.get(&key).and_then(|file| file.fingerprint);
        let now = file::fingerprint(&self.folder.file_of::<K>(&key));
        if !is_notified && known.is_some() && now.is_ok_and(|now| now == known) {
            return;
        }
        let read = self.folder.read::<K>(&key);
        if matches!(read, Ok(None)) {
            return self.delete_if_gone(key);
        }
        let file = self.files.entry(key.clone()).or_default();
        (file.fingerprint, file.missing_since) = (None, None);
        let fault = match read {
            Ok(manifest) => manifest.and_then(|manifest| {
                file.fingerprint = Some(manifest.content.fingerprint);
                let version = manifest.object.resource_version();
                let version = version.map(|version| rapidhash_v3(version.as_bytes()));
                if mem::replace(&mut file.version, version) != version {
                    self.events.push(Event::Applied(manifest.object));
                }
                manifest.warning
            }),
            Err(error) => Some(format!("{error:#}")),
        };
        match fault {
            Some(fault) => self.faults.insert(key, fault),
            None => self.faults.remove(&key),
        };
    }

    /// Deletes a missing object if it has been missing for long enough.
    fn delete_if_gone(&mut self, key: ObjectKey) {
        let Some(file) = self.files.get_mut(&key) else {
            return;
        };
        let gone = *file.missing_since.get_or_insert_with(Instant::now) + GONE_AFTER;
        if gone > Instant::now() {
            self.notifications.due.insert(key, gone);
        } else {
            self.files.remove(&key);
            self.faults.remove(&key);
            self.events.push(Event::Deleted(key));
        }
    }

    /// Reports new faults of files and folders in the log and the metrics.
    fn report(&mut self) {
        let mut now = self.listing_faults.clone();
        let path = |key| self.folder.file_of::<K>(key).display().to_string();
        for (key, fault) in &self.faults {
            now.insert(path(key), fault.clone());
        }
        let before = mem::replace(&mut self.reported, now);
        let now = self.reported.iter();
        let new = now.filter(|(path, fault)| before.get(*path) != Some(*fault));
        for (path, fault) in new.clone().take(MAX_WARNINGS) {
            warn!("bad manifest {path}: {fault}");
        }
        let named = || self.reported.clone().into_iter();
        self.watched.bad(self.reported.len(), new.count(), named);
    }
}

#[cfg(test)]
mod tests;
