use std::os::unix::fs::symlink;

use proto::api::DnsNameResolver;

use super::*;

fn subject(root: &Path) -> Folder {
    Folder {
        root: root.to_owned(),
        bad_objects: BadObjects::default(),
    }
}

#[test]
fn list_has_manifests_at_most_two_folders_deep() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    fs::create_dir_all(root.join("a/b/c")).unwrap();
    fs::create_dir_all(root.join(".git")).unwrap();
    fs::create_dir_all(root.join("lost+found")).unwrap();
    for name in [
        "x.yaml",
        "a/x.yml",
        "a/b/x.json",
        "a/b/c/deep.yaml",
        ".git/x.yaml",
        ".x.yaml",
        "lost+found/x.yaml",
        "README.md",
        "a/x.yaml~",
        "a/b/.x.tmp",
    ] {
        fs::write(root.join(name), "").unwrap();
    }
    let mut visited = Vec::new();
    let listing = subject(root).list::<DnsNameResolver>(|it| visited.push(it.to_owned()));
    let listing = listing.unwrap();
    let files = listing
        .files
        .iter()
        .map(|it| it.strip_prefix(root).unwrap());
    let files: Vec<_> = files.map(|it| it.to_str().unwrap()).collect();
    assert_eq!(files, ["a/b/x.json", "a/x.yml", "x.yaml"]);
    assert!(listing.unreadable.is_empty(), "{:?}", listing.unreadable);
    assert!(visited.contains(&root.join("a/b")));
}

#[test]
fn folder_that_cannot_be_read_is_in_the_list() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    fs::create_dir(root.join("ns")).unwrap();
    for name in ["ns/dnsnameresolvers", "ns/things"] {
        fs::write(root.join(name), "").unwrap();
    }
    symlink("nowhere", root.join("team")).unwrap();
    let subject = subject(root);
    let listing = subject.list::<DnsNameResolver>(|_| {}).unwrap();
    let folders: Vec<_> = listing
        .unreadable
        .keys()
        .map(|it| it.to_path_buf())
        .collect();
    assert_eq!(
        folders,
        [root.join("ns/dnsnameresolvers"), root.join("team")]
    );
    let namespaces = folders
        .iter()
        .map(|it| subject.namespace_of::<DnsNameResolver>(it));
    let namespaces: Vec<_> = namespaces.map(Option::unwrap).collect();
    assert_eq!(namespaces, ["ns", "team"]);
}

#[test]
fn own_place_of_an_object_has_its_key() {
    let subject = subject(Path::new("/store"));
    let key = |path: &str| {
        let key = subject.key_of::<DnsNameResolver>(&Path::new("/store").join(path));
        key.map(|key| key.to_string())
    };
    let own = Some("ns/a.b".to_owned());
    assert_eq!(key("ns/dnsnameresolvers/a.b.yaml"), own);
    for path in [
        "ns/dnsnameresolvers/a.yml",
        "ns/dnsnameresolvers/A.yaml",
        "Ns/dnsnameresolvers/a.yaml",
        "ns/egressfirewalls/a.yaml",
        "dnsnameresolvers/a.yaml",
        "x/ns/dnsnameresolvers/a.yaml",
        "a.yaml",
    ] {
        assert_eq!(key(path), None, "{path}");
    }
}

#[test]
fn file_elsewhere_is_parsed_if_it_names_the_kind() {
    let dir = tempfile::tempdir().unwrap();
    let subject = subject(dir.path());
    let path = dir.path().join("x.json");
    for (text, is_parsed) in [
        ("{\"kind\":\"DNSNameResolver\"", true),
        ("{\"kind\":\"EgressFirewall\"", false),
    ] {
        fs::write(&path, text).unwrap();
        let (_, manifest) = subject.read::<DnsNameResolver>(&path).unwrap().unwrap();
        assert_eq!(!manifest.faults.is_empty(), is_parsed, "{text}");
    }
}
