//! The watch without its stream: one step at a time, independent of the timing of notifications.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use ::metrics::with_local_recorder;
use metrics_exporter_prometheus::PrometheusBuilder;
use proto::api::DnsNameResolver;
use tempfile::TempDir;

use super::*;

mod elsewhere;
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
fn watch(root: &Path, scope: Scope) -> Watch<DnsNameResolver> {
    let folder = Folder::new(root.to_owned());
    Watch::new(Arc::new(folder), scope, Notifications::none())
}

/// Such a watch of a store with two delivered objects, `a` and `b`.
fn subject() -> Subject {
    let dir = tempfile::tempdir().unwrap();
    let mut subject = Subject {
        watch: watch(dir.path(), Scope::All),
        dir,
    };
    fs::create_dir_all(subject.path("")).unwrap();
    for name in ["a", "b"] {
        subject.write(name, &text_of("one.example.com."));
    }
    assert_eq!(subject.reconcile(), ["synced a b"]);
    subject
}

impl Subject {
    fn path(&self, file: &str) -> PathBuf {
        self.dir.path().join("ns/dnsnameresolvers").join(file)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(&format!("{name}.yaml")), text).unwrap();
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.path(&format!("{name}.yaml"))).unwrap();
    }

    /// Creates a namespace with an object; returns its folder.
    fn other(&self, namespace: &str, name: &str) -> PathBuf {
        let folder = self.dir.path().join(namespace).join("dnsnameresolvers");
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join(format!("{name}.yaml"));
        fs::write(file, text_of("one.example.com.")).unwrap();
        folder
    }

    /// The events of a step, in short form.
    fn reconcile(&mut self) -> Vec<String> {
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
        self.watch.reconcile().into_iter().map(in_short).collect()
    }

    /// The events of a step after a change of this file.
    fn reconcile_file(&mut self, name: &str) -> Vec<String> {
        self.reconcile_path(self.path(&format!("{name}.yaml")))
    }

    fn reconcile_path(&mut self, path: PathBuf) -> Vec<String> {
        let due = &mut self.watch.notifications.due;
        due.insert(path.into(), Instant::now());
        self.reconcile()
    }

    /// The events of a scan.
    fn scan(&mut self) -> Vec<String> {
        self.watch.notifications.next_list = Instant::now();
        self.reconcile()
    }

    /// Lets pass the time after which a missing file counts as deleted.
    fn let_gone_files_age(&mut self) {
        for file in self.watch.files.values_mut() {
            file.gone_since = file.gone_since.and_then(|it| it.checked_sub(GONE_AFTER));
        }
        for due in self.watch.notifications.due.values_mut() {
            *due = due.checked_sub(GONE_AFTER).unwrap();
        }
    }
}

#[test]
fn list_delivers_what_no_notification_told() {
    let mut subject = subject();
    subject.write("a", &text_of("two.example.com."));
    subject.write("c", &text_of("one.example.com."));
    subject.remove("b");
    assert!(subject.reconcile().is_empty());
    assert_eq!(
        subject.scan(),
        ["applied a two.example.com.", "applied c one.example.com."]
    );
    subject.let_gone_files_age();
    assert_eq!(subject.reconcile(), ["deleted b"]);
    assert!(subject.scan().is_empty());
}

#[test]
fn file_that_is_being_written_is_not_read_by_a_list() {
    let mut subject = subject();
    subject.write("a", "half");
    let path = subject.path("a.yaml");
    let due = &mut subject.watch.notifications.due;
    due.insert(path.into(), Instant::now() + Duration::from_secs(9));
    assert!(subject.scan().is_empty());
    assert!(subject.watch.faults.is_empty());
    subject.write("a", &text_of("two.example.com."));
    assert_eq!(subject.reconcile_file("a"), ["applied a two.example.com."]);
}

#[test]
fn last_known_object_stays_valid_while_its_file_does_not_decode() {
    let mut subject = subject();
    subject.write("a", "half");
    assert_eq!(subject.reconcile_file("a"), ["undecodable a"]);
    let aside = subject.dir.path().with_extension("aside");
    fs::rename(subject.dir.path(), &aside).unwrap();
    assert_eq!(subject.scan(), ["out of sync"]);
    fs::rename(&aside, subject.dir.path()).unwrap();
    assert_eq!(subject.scan(), ["synced b"]);
    // The repaired object is delivered although it is unchanged.
    subject.write("a", &text_of("one.example.com."));
    assert_eq!(
        subject.reconcile_file("a"),
        ["applied a one.example.com.", "undecodable "]
    );
}

#[test]
fn object_that_never_decoded_is_named_before_it_is_lacking() {
    let mut subject = subject();
    subject.write("a", "half");
    subject.write("c", "half");
    subject.watch = watch(subject.dir.path(), Scope::All);
    assert_eq!(subject.reconcile(), ["undecodable a c", "synced b"]);
    subject.write("b", "half");
    assert_eq!(subject.reconcile_file("b"), ["undecodable a b c"]);
    for (name, left) in [("a", "undecodable b c"), ("b", "undecodable c")] {
        subject.write(name, &text_of("two.example.com."));
        let applied = format!("applied {name} two.example.com.");
        assert_eq!(subject.reconcile_file(name), [applied.as_str(), left]);
    }
    subject.remove("c");
    assert!(subject.reconcile_file("c").is_empty());
    subject.let_gone_files_age();
    assert_eq!(subject.reconcile(), ["deleted c", "undecodable "]);
}

#[test]
fn root_that_goes_deletes_nothing_however_long_ago_a_file_went() {
    let mut subject = subject();
    subject.remove("a");
    assert!(subject.reconcile_file("a").is_empty());
    let aside = subject.dir.path().with_extension("aside");
    fs::rename(subject.dir.path(), &aside).unwrap();
    subject.let_gone_files_age();
    assert_eq!(subject.scan(), ["out of sync"]);
    for _ in 0..3 {
        assert!(subject.scan().is_empty());
    }
    fs::rename(&aside, subject.dir.path()).unwrap();
    assert_eq!(subject.scan(), ["synced b"]);
}

#[test]
fn bad_files_are_counted_and_named() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let expect = |name, value| {
        let sample = format!("{name}{{kind=\"DNSNameResolver\",scope=\"*\"}} {value}\n");
        let metrics = recorder.handle().render();
        assert!(metrics.contains(&sample), "{sample}{metrics}");
    };
    with_local_recorder(&recorder, || {
        let mut subject = subject();
        let root = subject.dir.path().to_owned();
        subject.write("a", "half");
        subject.write("Upper", &text_of("one.example.com."));
        fs::write(root.join("rules.yml"), "[DNSNameResolver").unwrap();
        fs::write(root.join("README.md"), "DNSNameResolver").unwrap();
        fs::write(root.join("other.yaml"), "[another kind").unwrap();
        for _ in 0..2 {
            subject.scan();
            expect("egress_store_undecodable_objects", 3);
            expect("egress_store_in_sync", 1);
        }
        let bad = subject.watch.folder.bad_objects.list();
        let places: Vec<_> = bad.iter().map(|bad| Path::new(&bad.place)).collect();
        let expected = [
            &subject.path("Upper.yaml"),
            &subject.path("a.yaml"),
            &root.join("rules.yml"),
        ];
        assert_eq!(places, expected);

        subject.write("a", &text_of("two.example.com."));
        subject.remove("Upper");
        subject.scan();
        expect("egress_store_undecodable_objects", 1);
        expect("egress_store_decode_failures_total", 3);
        fs::remove_dir_all(&root).unwrap();
        subject.scan();
        expect("egress_store_in_sync", 0);
    });
}
