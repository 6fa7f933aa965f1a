//! What a watch says of files and folders that it cannot use: to its consumer, in the log, and in the metrics.

use tracing::warn;

use super::{super::super::Kind, super::layout::file_name, State, Watch};

/// How many bad files one look names in the log.
const MAX_WARNINGS: usize = 20;

impl<K: Kind> Watch<K> {
    /// Says which objects are there and cannot be read.
    pub(super) fn report_undecodable(&mut self) {
        let files_that_cannot = self.faults.keys().chain(&self.unread).cloned();
        let now = files_that_cannot.chain(self.unreadable_keys()).collect();
        let files = &self.files;
        self.undecodable
            .around(&mut self.events, now, |key| files.contains(key));
    }

    pub(super) fn complain(&mut self, complaint: &str) {
        self.complaints += 1;
        if self.complaints <= MAX_WARNINGS {
            warn!("cannot read {complaint}");
        }
    }

    pub(super) fn report(&mut self) {
        let (folder, faults, misnamed) = (&self.folder, &self.faults, &self.misnamed);
        let unreadable = &self.unreadable;
        let bad = faults.len() + misnamed.len() + unreadable.len();
        self.watched.bad(bad, self.complaints, || {
            let faults = faults.iter().map(|(key, fault)| {
                let path = folder.path_of::<K>(&key.namespace);
                (path.join(file_name(&key.name)), in_words(fault))
            });
            let misnamed = misnamed.iter();
            let misnamed = misnamed.map(|(path, reason)| (path.clone(), (*reason).to_owned()));
            let unreadable = unreadable
                .iter()
                .map(|(namespace, reason)| (folder.path_of::<K>(namespace), reason.clone()));
            let all = faults.chain(misnamed).chain(unreadable);
            all.map(|(path, fault)| (path.display().to_string(), fault))
        });
        if self.complaints > MAX_WARNINGS {
            warn!("and {} more", self.complaints - MAX_WARNINGS);
        }
        self.complaints = 0;
        self.watched.in_sync(self.state == State::InSync);
    }
}

/// A fault without its path: `line 3: …` where that says `:3: …`.
fn in_words(fault: &str) -> String {
    match fault.strip_prefix(": ") {
        Some(reason) => reason.to_owned(),
        None => format!("line {}", fault.trim_start_matches(':')),
    }
}
