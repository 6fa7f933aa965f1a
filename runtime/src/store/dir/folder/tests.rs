use proto::api::DnsNameResolver;

use super::*;

fn subject(root: &Path) -> Folder {
    Folder::new(root.to_owned())
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
    let listing = subject(root).list(true, |it| visited.push(it.to_owned()));
    let (files, unreadable) = listing.unwrap();
    let files = files.iter().map(|it| it.strip_prefix(root).unwrap());
    let files: Vec<_> = files.map(|it| it.to_str().unwrap()).collect();
    assert_eq!(files, ["a/b/x.json", "a/x.yml", "x.yaml"]);
    assert!(unreadable.is_empty(), "{unreadable:?}");
    assert!(visited.contains(&root.join("a/b")));
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
