//! The watch without its stream: one look at a time, independent of the timing of notifications.

use std::{fs, path::Path};

use ::metrics::with_local_recorder;
use kube::ResourceExt;
use metrics_exporter_prometheus::PrometheusBuilder;
use proto::api::DnsNameResolver;
use rustix::fs::inotify::ReadFlags;
use tempfile::TempDir;

use super::{
    super::{layout::file_name, notifications::Place},
    *,
};

mod namespaces;

struct Subject {
    dir: TempDir,
    watch: Watch<DnsNameResolver>,
}

fn text_of(name: &str) -> String {
    format!(
        "apiVersion: network.openshift.io/v1alpha1\nkind: DNSNameResolver\nspec:\n  name: {name}\n"
    )
}

/// A watch without notifications.
fn watch(folder: Arc<Folder>, scope: Scope) -> Watch<DnsNameResolver> {
    let plural = "dnsnameresolvers".to_owned();
    Watch::new(folder, scope, Notifications::none(plural))
}

/// Such a watch of a store with two delivered objects, `a` and `b`.
fn subject() -> Subject {
    let dir = tempfile::tempdir().unwrap();
    let folder = Arc::new(Folder::new(dir.path().to_owned(), Duration::ZERO));
    let mut subject = Subject {
        watch: watch(folder, Scope::All),
        dir,
    };
    fs::create_dir_all(subject.path("")).unwrap();
    for name in ["a", "b"] {
        subject.write(name, &text_of("one.example.com."));
    }
    assert_eq!(subject.look(), ["synced a b"]);
    subject
}

impl Subject {
    fn path(&self, file: &str) -> PathBuf {
        self.dir.path().join("ns/dnsnameresolvers").join(file)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(&file_name(name)), text).unwrap();
    }

    /// Creates a namespace with an object; returns its folder.
    fn other(&self, namespace: &str, name: &str) -> PathBuf {
        let folder = self.dir.path().join(namespace).join("dnsnameresolvers");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(file_name(name)), text_of("one.example.com.")).unwrap();
        folder
    }

    /// Has the watch notified of a path.
    fn notify(&mut self, flags: ReadFlags, path: impl AsRef<Path>) {
        let path = path.as_ref().strip_prefix(self.dir.path()).unwrap();
        let names: Vec<_> = path.iter().map(|name| name.to_str().unwrap()).collect();
        let (place, name) = match names.as_slice() {
            [] => (Place::Root, None),
            [namespace] => (Place::Root, Some(*namespace)),
            [_, kind] => (Place::Namespace, Some(*kind)),
            [namespace, _, file] => (Place::Objects((*namespace).to_owned()), Some(*file)),
            _ => panic!("{path:?}"),
        };
        self.watch.notifications.take_in(&place, flags, name);
    }

    fn hint(&mut self, path: impl AsRef<Path>) {
        self.notify(ReadFlags::MOVED_TO, path);
    }

    /// The events of a look, in short form.
    fn look(&mut self) -> Vec<String> {
        let in_short = |event: Event<DnsNameResolver>| match event {
            Event::Synced(objects) => {
                let names: Vec<_> = objects.iter().map(ResourceExt::name_any).collect();
                format!("synced {}", names.join(" "))
            }
            Event::Applied(object) => format!("applied {} {}", object.name_any(), object.spec.name),
            Event::Deleted(key) => format!("deleted {}", key.name),
            Event::OutOfSync(_) => "out of sync".to_owned(),
            Event::Undecodable(keys) => {
                let names: Vec<_> = keys.iter().map(|key| key.name.as_str()).collect();
                format!("undecodable {}", names.join(" "))
            }
        };
        self.watch.look().into_iter().map(in_short).collect()
    }

    /// Lets pass the time after which a missing file counts as deleted.
    fn let_gone_files_age(&mut self) {
        for since in self.watch.gone.values_mut() {
            *since = since.checked_sub(GONE_AFTER).unwrap();
        }
    }
}

#[test]
fn lost_notifications_mean_reading_everything_again() {
    let mut subject = subject();
    subject.write("a", &text_of("two.example.com."));
    assert!(subject.look().is_empty());
    subject.watch.notifications.overflow();
    let events = subject.watch.look();
    let [Event::Synced(objects)] = events.as_slice() else {
        panic!("{events:?}");
    };
    let names: Vec<_> = objects.iter().map(|o| o.spec.name.as_str()).collect();
    assert_eq!(names, ["two.example.com.", "one.example.com."]);
}

#[test]
fn what_cannot_be_read_when_everything_is_is_there_and_comes_later() {
    let mut subject = subject();
    subject.notify(ReadFlags::MODIFY, subject.path("a.yaml"));
    fs::remove_file(subject.path("b.yaml")).unwrap();
    subject.hint(subject.path("b.yaml"));
    subject.write("c", "half");
    subject.watch.notifications.overflow();
    // One is being written, one has just vanished, one does not decode.
    assert_eq!(subject.look(), ["undecodable a b c", "synced "]);
    subject.notify(ReadFlags::CLOSE_WRITE, subject.path("a.yaml"));
    // The object is delivered, changed or not: a consumer that starts with a list has not seen it.
    assert_eq!(
        subject.look(),
        ["applied a one.example.com.", "undecodable b c"]
    );
    subject.let_gone_files_age();
    assert_eq!(subject.look(), ["deleted b", "undecodable c"]);
}

#[test]
fn a_file_counts_as_deleted_once_it_is_gone_for_a_while() {
    let mut subject = subject();
    fs::remove_file(subject.path("a.yaml")).unwrap();
    subject.hint(subject.path("a.yaml"));
    assert!(subject.look().is_empty());
    subject.let_gone_files_age();
    assert_eq!(subject.look(), ["deleted a"]);
    assert!(subject.look().is_empty());
}

#[test]
fn a_file_that_is_moved_away_and_written_anew_was_never_deleted() {
    let mut subject = subject();
    fs::rename(subject.path("a.yaml"), subject.path("a.yaml~")).unwrap();
    subject.hint(subject.path("a.yaml"));
    assert!(subject.look().is_empty());
    subject.write("a", &text_of("two.example.com."));
    subject.let_gone_files_age();
    assert_eq!(subject.look(), ["applied a two.example.com."]);
}

#[test]
fn a_file_that_is_being_written_is_not_read() {
    let mut subject = subject();
    subject.write("a", "half");
    subject.notify(ReadFlags::MODIFY, subject.path("a.yaml"));
    subject.hint(subject.path(""));
    assert!(subject.look().is_empty());
    assert!(subject.watch.faults.is_empty());
    subject.write("a", &text_of("two.example.com."));
    subject.notify(ReadFlags::CLOSE_WRITE, subject.path("a.yaml"));
    assert_eq!(subject.look(), ["applied a two.example.com."]);
}

#[test]
fn what_is_known_of_a_file_holds_while_it_does_not_decode() {
    let mut subject = subject();
    subject.write("a", "half");
    subject.hint(subject.path("a.yaml"));
    assert_eq!(subject.look(), ["undecodable a"]);
    fs::rename(subject.path(""), subject.dir.path().join("aside")).unwrap();
    subject.hint(subject.path(""));
    assert_eq!(subject.look(), ["out of sync"]);
    fs::rename(subject.dir.path().join("aside"), subject.path("")).unwrap();
    assert_eq!(subject.look(), ["synced b"]);
    // The repaired object is delivered although it is unchanged.
    subject.write("a", &text_of("one.example.com."));
    subject.hint(subject.path("a.yaml"));
    assert_eq!(
        subject.look(),
        ["applied a one.example.com.", "undecodable "]
    );
}

#[test]
fn a_folder_that_goes_with_a_file_leaves_nothing_to_do_at_once() {
    let mut subject = subject();
    fs::remove_file(subject.path("a.yaml")).unwrap();
    subject.hint(subject.path("a.yaml"));
    assert!(subject.look().is_empty());
    fs::remove_dir_all(subject.path("")).unwrap();
    subject.let_gone_files_age();
    assert_eq!(subject.look(), ["out of sync"]);
    for _ in 0..3 {
        let before = Instant::now();
        assert!(subject.look().is_empty());
        assert!(subject.watch.next_look() >= before + MISSING_LOOK_INTERVAL);
    }
}

#[test]
fn a_folder_that_another_one_replaced_between_two_looks_is_read_anew() {
    for with_its_files in [false, true] {
        let mut subject = subject();
        if with_its_files {
            fs::remove_dir_all(subject.path("")).unwrap();
        } else {
            fs::rename(subject.path(""), subject.dir.path().join("aside")).unwrap();
        }
        fs::create_dir(subject.path("")).unwrap();
        subject.write("c", &text_of("three.example.com."));
        for file in ["", "a.yaml", "b.yaml", "c.yaml"] {
            subject.hint(subject.path(file));
        }
        assert_eq!(subject.look(), ["synced c"]);
        subject.let_gone_files_age();
        subject.hint(subject.path(""));
        assert!(subject.look().is_empty());
    }
}

#[test]
fn nothing_is_delivered_before_the_whole_is_known() {
    let Subject { dir, .. } = subject();
    let folder = Arc::new(Folder::new(dir.path().to_owned(), Duration::ZERO));
    let gone = folder.path_of::<DnsNameResolver>("other");
    let more = folder.path_of::<DnsNameResolver>("third");
    folder.populated().extend([gone.clone(), more]);
    let mut subject = Subject {
        watch: watch(folder, Scope::All),
        dir,
    };
    assert_eq!(subject.look(), ["out of sync"]);
    subject.write("a", &text_of("two.example.com."));
    subject.hint(subject.path("a.yaml"));
    assert!(subject.look().is_empty());
    fs::create_dir_all(gone).unwrap();
    assert_eq!(subject.look(), ["synced a b"]);
}

#[test]
fn other_folders_are_watched_on_while_most_are_missing() {
    let mut subject = subject();
    let others = ["c", "d"].map(|name| subject.other(name, name));
    let root = subject.dir.path().to_owned();
    subject.hint(root);
    let applied = ["c", "d"].map(|name| format!("applied {name} one.example.com."));
    assert_eq!(subject.look(), applied);
    for folder in others {
        fs::remove_dir_all(&folder).unwrap();
        subject.hint(folder);
    }
    assert_eq!(subject.look(), ["out of sync"]);
    subject.write("a", &text_of("two.example.com."));
    subject.hint(subject.path("a.yaml"));
    assert_eq!(subject.look(), ["applied a two.example.com."]);
    // Waiting does not change that.
    subject.let_gone_files_age();
    assert!(subject.look().is_empty());
    assert!(subject.watch.gone.is_empty());
}

#[test]
fn a_folder_that_was_emptied_first_may_go() {
    let mut subject = subject();
    for name in ["a.yaml", "b.yaml"] {
        fs::remove_file(subject.path(name)).unwrap();
        subject.hint(subject.path(name));
    }
    assert!(subject.look().is_empty());
    subject.let_gone_files_age();
    assert_eq!(subject.look(), ["deleted a", "deleted b"]);
    fs::remove_dir(subject.path("")).unwrap();
    subject.hint(subject.path(""));
    assert!(subject.look().is_empty());
    assert!(subject.watch.is_in_sync());
}

#[test]
fn bad_files_are_counted() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let text = |name, value| format!("{name}{{kind=\"DNSNameResolver\",scope=\"*\"}} {value}\n");
    with_local_recorder(&recorder, || {
        let mut subject = subject();
        subject.write("a", "half");
        subject.write("Upper", "");
        subject.hint(subject.path(""));
        subject.look();
        subject.hint(subject.path(""));
        subject.look();
        let metrics = recorder.handle().render();
        assert!(
            metrics.contains(&text("egress_store_undecodable_objects", 2)),
            "{metrics}"
        );
        assert!(
            metrics.contains(&text("egress_store_in_sync", 1)),
            "{metrics}"
        );

        subject.write("a", &text_of("two.example.com."));
        fs::remove_file(subject.path("Upper.yaml")).unwrap();
        subject.hint(subject.path(""));
        subject.look();
        let metrics = recorder.handle().render();
        assert!(
            metrics.contains(&text("egress_store_undecodable_objects", 0)),
            "{metrics}"
        );
        let total = text("egress_store_decode_failures_total", 2);
        assert!(metrics.contains(&total), "{metrics}");

        fs::remove_dir_all(subject.path("")).unwrap();
        subject.hint(subject.path(""));
        subject.look();
        let metrics = recorder.handle().render();
        assert!(
            metrics.contains(&text("egress_store_in_sync", 0)),
            "{metrics}"
        );
    });
}

#[test]
fn what_never_decoded_is_named_before_anything_that_lacks_it() {
    let mut subject = subject();
    subject.write("a", "half");
    subject.write("c", "half");
    let folder = Arc::clone(&subject.watch.folder);
    subject.watch = watch(folder, Scope::All);
    assert_eq!(subject.look(), ["undecodable a c", "synced b"]);

    // The last known object stays valid.
    subject.write("b", "half");
    subject.hint(subject.path("b.yaml"));
    assert_eq!(subject.look(), ["undecodable a b c"]);

    for (name, left) in [("a", "undecodable b c"), ("b", "undecodable c")] {
        subject.write(name, &text_of("two.example.com."));
        subject.hint(subject.path(&file_name(name)));
        let applied = format!("applied {name} two.example.com.");
        assert_eq!(subject.look(), [applied.as_str(), left]);
    }

    fs::remove_file(subject.path("c.yaml")).unwrap();
    subject.hint(subject.path("c.yaml"));
    assert!(subject.look().is_empty());
    subject.let_gone_files_age();
    assert_eq!(subject.look(), ["deleted c", "undecodable "]);
}
