//! Objects in files that are not their own places.

use super::*;

/// A manifest that names its object.
fn named(name: &str, dns_name: &str) -> String {
    format!(
        "apiVersion: network.openshift.io/v1alpha1\nkind: DNSNameResolver\nmetadata: {{name: {name}, namespace: ns}}\nspec: {{name: {dns_name}}}\n"
    )
}

impl Subject {
    fn in_root(&self, file: &str) -> PathBuf {
        self.dir.path().join(file)
    }

    /// Writes a file elsewhere, and returns the events.
    fn put(&mut self, file: &str, documents: &[String]) -> Vec<String> {
        let path = self.in_root(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, documents.join("---\n")).unwrap();
        self.reconcile_path(path)
    }

    fn faults(&self) -> Vec<(String, String)> {
        let bad = self.watch.folder.bad_objects.list();
        bad.into_iter().map(|bad| (bad.place, bad.fault)).collect()
    }
}

#[test]
fn objects_of_a_file_come_change_and_go() {
    let mut subject = subject();
    let one = [
        named("c", "one.example.com."),
        named("d", "one.example.com."),
    ];
    assert_eq!(
        subject.put("team/rules.yml", &one),
        ["applied c one.example.com.", "applied d one.example.com."]
    );
    let changed = [named("c", "two.example.com.")];
    assert_eq!(
        subject.put("team/rules.yml", &changed),
        ["deleted d", "applied c two.example.com."]
    );
    // It may be in the middle of a write.
    assert!(subject.put("team/rules.yml", &[]).is_empty());
    fs::remove_file(subject.in_root("team/rules.yml")).unwrap();
    assert!(subject.scan().is_empty());
    subject.let_gone_files_age();
    assert_eq!(subject.reconcile(), ["deleted c"]);
    assert!(
        subject
            .watch
            .files
            .keys()
            .all(|it| it.starts_with(subject.path("")))
    );
}

#[test]
fn object_that_moves_between_files_was_never_gone() {
    let mut subject = subject();
    subject.put("one.yaml", &[named("c", "one.example.com.")]);
    fs::rename(subject.in_root("one.yaml"), subject.in_root("two.yaml")).unwrap();
    assert_eq!(subject.reconcile_path(subject.in_root("two.yaml")), [""; 0]);
    assert_eq!(subject.scan(), [""; 0]);
    subject.let_gone_files_age();
    for _ in 0..2 {
        assert_eq!(subject.reconcile(), [""; 0]);
    }
    assert!(subject.faults().is_empty());
    let changed = [named("c", "two.example.com.")];
    assert_eq!(
        subject.put("two.yaml", &changed),
        ["applied c two.example.com."]
    );
}

#[test]
fn own_place_counts_before_other_files() {
    let mut subject = subject();
    let other = [named("a", "other.example.com.")];
    assert_eq!(subject.put("a.yaml", &other), [""; 0]);
    let (own, elsewhere) = (subject.path("a.yaml"), subject.in_root("a.yaml"));
    let place = format!("{} (DNSNameResolver ns/a)", elsewhere.display());
    let fault = format!("not used: the object is in {}, too", own.display());
    assert_eq!(subject.faults(), [(place, fault)]);
    // A new watch reads the other file first.
    subject.watch = watch(subject.dir.path(), Scope::All);
    assert_eq!(subject.reconcile(), ["synced a b"]);
    let files = &subject.watch.objects[&"ns/a".parse().unwrap()].files;
    assert_eq!(*files.first().unwrap().1, *own);
    assert_eq!(subject.reconcile_file("a"), [""; 0]);

    subject.remove("a");
    assert_eq!(subject.reconcile_file("a"), [""; 0]);
    subject.let_gone_files_age();
    subject.reconcile();
    assert_eq!(subject.reconcile(), ["applied a other.example.com."]);
    assert!(subject.faults().is_empty());
    subject.write("a", &text_of("own.example.com."));
    assert_eq!(subject.reconcile_file("a"), ["applied a own.example.com."]);
}
