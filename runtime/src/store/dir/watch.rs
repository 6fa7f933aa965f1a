//! The watch: the known state of a kind, and its changes.

use std::{
    collections::BTreeMap,
    mem,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use kube::ResourceExt;
use tracing::{info, warn};

use super::{
    super::{Event, Kind, ObjectKey, Scope, undecodable::Undecodable, watched::Watched},
    file,
    folder::{Folder, Listing},
    manifest::Manifest,
    notifications::Notifications,
};

/// A file is deleted once it has been gone for this long: editors move a file away before they write the new one.
const GONE_AFTER: Duration = Duration::from_millis(100);

/// One watch. Its methods block.
pub(super) struct Watch<K> {
    folder: Arc<Folder>,
    scope: Scope,
    pub(super) notifications: Notifications,
    files: BTreeMap<Arc<Path>, KnownFile>,
    objects: BTreeMap<ObjectKey, KnownObject>,
    /// Why the content is unknown.
    out_of_sync: Option<String>,
    /// The faults of files and folders.
    faults: BTreeMap<Arc<Path>, String>,
    events: Vec<Event<K>>,
    undecodable: Undecodable,
    watched: Watched,
}

/// A file that may be a manifest.
#[derive(Default)]
struct KnownFile {
    /// The fingerprint at the last read.
    fingerprint: Option<u64>,
    /// Its objects.
    keys: Box<[ObjectKey]>,
    /// Since when it is missing, or has no object any more.
    gone_since: Option<Instant>,
}

/// An object of the scope.
#[derive(Default)]
struct KnownObject {
    /// The version that was last delivered; `None` if the object does not decode.
    version: Option<String>,
    /// The files that have it, and whether each is not its own place; sorted, and nearly always one. The first one counts.
    files: Vec<(bool, Arc<Path>)>,
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
            out_of_sync: Some("it is not read yet".to_owned()),
            faults: BTreeMap::new(),
            events: Vec::new(),
            undecodable: Undecodable::default(),
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
            let objects = &self.objects;
            let undecodable = objects
                .iter()
                .filter(|(_, object)| object.version.is_none());
            let undecodable = undecodable.map(|(key, _)| key.clone()).collect();
            self.undecodable
                .around(&mut self.events, undecodable, |key| {
                    objects.contains_key(key)
                });
        }
        self.report();
        self.watched.in_sync(self.out_of_sync.is_none());
        mem::take(&mut self.events)
    }

    /// Lists all files, and reads those that changed.
    fn scan(&mut self) {
        let notifications = &mut self.notifications;
        // At the start missing objects count as deleted, and those of a folder that cannot be read are not known.
        let needs_all = self.out_of_sync.is_some();
        match self
            .folder
            .list(needs_all, |folder| notifications.watch(folder))
        {
            Ok(listing) => self.apply_listing(listing),
            Err(error) => self.set_out_of_sync(format!("{error:#}")),
        }
        let interval = Duration::from_secs(if self.out_of_sync.is_some() { 1 } else { 10 });
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

    fn apply_listing(&mut self, (mut paths, unreadable): Listing) {
        let is_resync = self.out_of_sync.take().is_some();
        if is_resync {
            // Consumers may not have the current objects, so all are delivered.
            self.files
                .values_mut()
                .for_each(|file| file.fingerprint = None);
            self.objects.clear();
        }
        self.faults.retain(|path, _| self.files.contains_key(path));
        self.faults.extend(unreadable);
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
        if !is_notified && known.is_some() && known == file::fingerprint(&path) {
            return;
        }
        let mut above = path.ancestors().skip(1);
        let fault = match self.folder.read::<K>(&path) {
            Ok(Some((content, manifest))) => {
                return self.apply(path, Some(content.fingerprint), manifest);
            }
            Ok(None) if !above.any(|it| self.faults.contains_key(it)) => {
                return self.apply_absence(path);
            }
            Ok(None) => "its folder cannot be read".to_owned(),
            Err(error) => format!("{error:#}"),
        };
        let own = self.folder.key_of::<K>(&path);
        self.apply(path, None, Manifest::unreadable(fault, own));
    }

    /// Takes in what a file has. A file that had objects and has none now may be in the middle of a write.
    fn apply(&mut self, path: Arc<Path>, fingerprint: Option<u64>, mut manifest: Manifest<K>) {
        let objects = &mut manifest.objects;
        objects.retain(|key, _| self.scope.has(&key.namespace));
        let before = self.files.get(&path).map(|file| file.keys.clone());
        let before = before.unwrap_or_default();
        if manifest.is_whole && manifest.objects.is_empty() && !before.is_empty() {
            return self.apply_absence(path);
        }
        for key in before {
            if manifest.objects.contains_key(&key) {
                // It is added below.
            } else if manifest.is_whole {
                self.release(key, &path);
            } else {
                manifest.objects.insert(key, None);
            }
        }
        let keys = manifest.objects.keys().cloned().collect();
        for (key, object) in manifest.objects {
            let version = object.as_ref().and_then(ResourceExt::resource_version);
            let known = self.hold(&key, &path);
            if known.is_some_and(|it| mem::replace(&mut it.version, version.clone()) != version) {
                self.events.extend(object.map(Event::Applied));
            }
        }
        self.faults.remove(&path);
        if !manifest.faults.is_empty() {
            let fault = manifest.faults.join("; ");
            self.faults.insert(Arc::clone(&path), fault);
        }
        let file = KnownFile {
            fingerprint,
            keys,
            gone_since: None,
        };
        self.files.insert(path, file);
    }

    /// The objects of a file that is gone are deleted once it has been gone for long enough.
    fn apply_absence(&mut self, path: Arc<Path>) {
        let now = Instant::now();
        if let Some(file) = self.files.get_mut(&path).filter(|it| !it.keys.is_empty()) {
            let due = *file.gone_since.get_or_insert(now) + GONE_AFTER;
            if now < due {
                self.notifications.due.insert(path, due);
                return;
            }
        }
        self.faults.remove(&path);
        let file = self.files.remove(&path).unwrap_or_default();
        for key in file.keys {
            self.release(key, &path);
        }
    }

    /// Notes that a file has an object. Returns the object if this file counts.
    fn hold(&mut self, key: &ObjectKey, path: &Arc<Path>) -> Option<&mut KnownObject> {
        let is_elsewhere = self.folder.file_of::<K>(key) != **path;
        let file = (is_elsewhere, Arc::clone(path));
        let object = self.objects.entry(key.clone()).or_default();
        if let Err(place) = object.files.binary_search(&file) {
            object.files.reserve_exact(1);
            object.files.insert(place, file.clone());
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

    /// Reports the faults of files and folders, and the files that are not used.
    fn report(&mut self) {
        let faults = self.faults.iter();
        let faults = faults.map(|(path, fault)| (path.display().to_string(), fault.clone()));
        let mut faults: BTreeMap<String, String> = faults.collect();
        for (key, object) in &self.objects {
            let mut files = object.files.iter().map(|(_, path)| path.display());
            let Some(first) = files.next() else { continue };
            for other in files {
                let place = format!("{other} ({} {key})", K::kind(&()));
                faults.insert(place, format!("not used: the object is in {first}, too"));
            }
        }
        self.watched.set_faults(faults);
    }
}

#[cfg(test)]
mod tests;
