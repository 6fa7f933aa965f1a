//! The watch: the known state of a kind, and its changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, mem,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context;
use kube::ResourceExt;
use rapidhash::v3::rapidhash_v3;
use tracing::{info, warn};

use super::{
    super::{Event, Kind, ObjectKey, Scope, undecodable::Undecodable, watched::Watched},
    file,
    folder::{Folder, Listing, is_absent},
    manifest::Manifest,
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
    files: BTreeMap<Arc<Path>, KnownFile>,
    objects: BTreeMap<ObjectKey, KnownObject>,
    /// The objects that may be in several files.
    duplicates: BTreeSet<ObjectKey>,
    /// Why the content is unknown.
    out_of_sync: Option<String>,
    /// The faults of files and folders, and the objects that cannot be read.
    faults: BTreeMap<Arc<Path>, (String, BTreeSet<ObjectKey>)>,
    events: Vec<Event<K>>,
    undecodable: Undecodable,
    /// All faults as last reported.
    reported: BTreeMap<String, String>,
    watched: Watched,
}

/// A file that may be a manifest.
#[derive(Default)]
struct KnownFile {
    /// The fingerprint at the last read.
    fingerprint: Option<u64>,
    /// Its objects, and since when one is missing in it.
    keys: Vec<(ObjectKey, Option<Instant>)>,
}

/// An object of the scope.
#[derive(Default)]
struct KnownObject {
    /// The hash of the version that was last delivered.
    version: Option<u64>,
    /// The files that have it, and whether each is not its own place. The first one counts.
    files: BTreeSet<(bool, Arc<Path>)>,
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
            objects: BTreeMap::new(),
            duplicates: BTreeSet::new(),
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
            for (path, _) in due.collect::<Vec<_>>() {
                self.reconcile_file(path, true);
            }
            let unread = self.faults.values().flat_map(|(_, objects)| objects);
            let (unread, objects) = (unread.cloned().collect(), &self.objects);
            self.undecodable
                .around(&mut self.events, unread, |key| objects.contains_key(key));
        }
        self.report();
        self.watched.in_sync(self.out_of_sync.is_none());
        mem::take(&mut self.events)
    }

    /// Lists all files, and reads those that changed.
    fn scan(&mut self) {
        let notifications = &mut self.notifications;
        let listing = self.folder.list::<K>(|folder| notifications.watch(folder));
        match listing.and_then(|listing| self.check_sole_folder().map(|()| listing)) {
            Ok(listing) => self.apply_listing(listing),
            Err(error) => self.set_out_of_sync(format!("{error:#}")),
        }
        let is_blind = self.notifications.is_incomplete || self.out_of_sync.is_some();
        let interval = Duration::from_secs(if is_blind { 1 } else { 10 });
        self.notifications.next_list = Instant::now() + interval;
    }

    /// Fails if the folder of the only namespace in scope cannot be read, or is gone with its objects.
    fn check_sole_folder(&self) -> anyhow::Result<()> {
        let Scope::Namespace(only) = &self.scope else {
            return Ok(());
        };
        let folder = self.folder.folder_of::<K>(only);
        let has_objects = || {
            let mut files = self.files.iter();
            files.any(|(path, file)| path.starts_with(&folder) && !file.keys.is_empty())
        };
        match fs::read_dir(&folder) {
            Err(_) if is_absent(&folder) && !has_objects() => Ok(()),
            read => read
                .map(drop)
                .with_context(|| format!("put back {}", folder.display())),
        }
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
            self.files
                .values_mut()
                .for_each(|file| file.fingerprint = None);
            self.objects.clear();
        }
        self.faults.retain(|path, _| self.files.contains_key(path));
        for (folder, fault) in listing.unreadable {
            let namespace = self.folder.namespace_of::<K>(&folder);
            let namespace = namespace.filter(|it| self.is_in_scope(it));
            let objects = namespace.iter().map(|it| ObjectKey::all_in(it));
            self.faults.insert(folder, (fault, objects.collect()));
        }
        let mut paths = listing.files;
        // A list may lack a file that is renamed meanwhile.
        paths.extend(self.files.keys().cloned());
        for path in paths {
            if is_resync || !self.notifications.due.contains_key(&path) {
                self.reconcile_file(path, false);
            }
        }
        if is_resync {
            // Of the files that have an object, the one that counts may come last.
            let objects = self.events.drain(..).filter_map(|event| match event {
                Event::Applied(object) => Some((ObjectKey::of(&object), object)),
                _ => None,
            });
            let objects: BTreeMap<ObjectKey, K> = objects.collect();
            info!(kind = %K::kind(&()), objects = objects.len(), "in sync with the folder");
            self.events = vec![Event::Synced(objects.into_values().collect())];
        }
    }

    /// Reads a file if it has changed. Two writes within a tick of the kernel's clock may have one fingerprint, so a
    /// notified change is read in any case.
    fn reconcile_file(&mut self, path: Arc<Path>, is_notified: bool) {
        let known = self.files.get(&path).and_then(|file| file.fingerprint);
        let is_known = || file::fingerprint(&path).is_ok_and(|now| now == known);
        if !is_notified && known.is_some() && is_known() {
            return;
        }
        let own = self.folder.key_of::<K>(&path);
        if own
            .as_ref()
            .is_some_and(|own| !self.is_in_scope(&own.namespace))
        {
            return;
        }
        let (fingerprint, mut manifest) = match self.folder.read::<K>(&path) {
            Ok(Some((content, manifest))) => (Some(content.fingerprint), manifest),
            Ok(None) => (None, Manifest::default()),
            Err(error) => (None, Manifest::unreadable(format!("{error:#}"), own)),
        };
        let objects = &mut manifest.objects;
        objects.retain(|key, _| self.is_in_scope(&key.namespace));
        self.apply(path, fingerprint, manifest);
    }

    fn is_in_scope(&self, namespace: &str) -> bool {
        match &self.scope {
            Scope::All => true,
            Scope::Namespace(only) => only == namespace,
        }
    }

    /// Takes in what a file has. An object that is no longer in it is deleted once it has been missing for long enough.
    fn apply(&mut self, path: Arc<Path>, fingerprint: Option<u64>, mut manifest: Manifest<K>) {
        let now = Instant::now();
        let is_gone = fingerprint.is_none() && manifest.is_whole;
        let mut keys = Vec::new();
        for (key, missing_since) in self.files.remove(&path).unwrap_or_default().keys {
            let missing_since = missing_since.unwrap_or(now);
            let due = missing_since + GONE_AFTER;
            if manifest.objects.contains_key(&key) {
                // It is added below.
            } else if !manifest.is_whole {
                manifest.objects.insert(key, None);
            } else if now < due {
                self.notifications.due.insert(Arc::clone(&path), due);
                keys.push((key, Some(missing_since)));
            } else {
                self.release(key, &path);
            }
        }
        let mut undecodable = BTreeSet::new();
        for (key, object) in manifest.objects {
            let known = self.hold(&key, &path);
            if let Some(object) = object {
                let version = object.resource_version();
                let version = version.map(|version| rapidhash_v3(version.as_bytes()));
                if known.is_some_and(|it| mem::replace(&mut it.version, version) != version) {
                    self.events.push(Event::Applied(object));
                }
            } else {
                undecodable.insert(key.clone());
            }
            keys.push((key, None));
        }
        // The fault of a file that is gone lasts as long as its objects.
        if !is_gone || keys.is_empty() {
            self.faults.remove(&path);
        }
        if !manifest.faults.is_empty() {
            let fault = (manifest.faults.join("; "), undecodable);
            self.faults.insert(Arc::clone(&path), fault);
        }
        if fingerprint.is_some() || !keys.is_empty() {
            self.files.insert(path, KnownFile { fingerprint, keys });
        }
    }

    /// Notes that a file has an object. Returns the object if this file counts.
    fn hold(&mut self, key: &ObjectKey, path: &Arc<Path>) -> Option<&mut KnownObject> {
        let is_elsewhere = self.folder.file_of::<K>(key) != **path;
        let file = (is_elsewhere, Arc::clone(path));
        let object = self.objects.entry(key.clone()).or_default();
        object.files.insert(file.clone());
        if object.files.len() > 1 {
            self.duplicates.insert(key.clone());
        }
        (object.files.first() == Some(&file)).then_some(object)
    }

    /// Notes that a file no longer has an object. Another file that has it is read again.
    fn release(&mut self, key: ObjectKey, path: &Arc<Path>) {
        let Some(object) = self.objects.get_mut(&key) else {
            return;
        };
        object.files.retain(|(_, it)| it != path);
        if let Some((_, next)) = object.files.first() {
            let due = &mut self.notifications.due;
            due.insert(Arc::clone(next), Instant::now());
        } else {
            self.objects.remove(&key);
            self.events.push(Event::Deleted(key));
        }
    }

    /// Reports new faults of files and folders in the log and the metrics.
    fn report(&mut self) {
        let faults = self.faults.iter();
        let faults = faults.map(|(path, (fault, _))| (path.display().to_string(), fault.clone()));
        let mut now: BTreeMap<String, String> = faults.collect();
        let files = |key: &ObjectKey| {
            let files = self.objects.get(key).into_iter();
            files.flat_map(|object| object.files.iter().map(|(_, path)| path.display()))
        };
        self.duplicates.retain(|key| files(key).count() > 1);
        for key in &self.duplicates {
            let mut files = files(key);
            let Some(first) = files.next() else { continue };
            for other in files {
                let place = format!("{other} ({} {key})", K::kind(&()));
                now.insert(place, format!("not used: the object is in {first}, too"));
            }
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
