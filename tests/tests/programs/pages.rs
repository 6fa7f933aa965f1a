//! Paths and versions that pages name.

use std::{
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn the_version_is_the_same_everywhere() {
    let version = env!("CARGO_PKG_VERSION");
    let chart = fs::read_to_string(root().join("deploy/chart/Chart.yaml")).unwrap();
    for key in ["version", "appVersion"] {
        assert!(chart.contains(&format!("\n{key}: {version}\n")), "{key}");
    }
    let changes = fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
    let heading = changes
        .lines()
        .find(|line| line.starts_with("## "))
        .unwrap();
    assert!(heading.contains(version), "{heading}");
}

fn read_pages(folder: &Path, pages: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_pages(&path, pages);
        } else if path.extension().is_some_and(|it| it == "md") {
            pages.push(fs::read_to_string(path).unwrap());
        }
    }
}

/// The source files that a text names: `names/src/name.rs`.
fn files(text: &str) -> Vec<&str> {
    let words = text.split('`').skip(1).step_by(2);
    words
        .filter(|it| it.contains("/src/") && it.ends_with(".rs"))
        .collect()
}

#[test]
fn source_files_that_the_pages_name_exist() {
    let mut pages = vec![fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap()];
    read_pages(&root().join("docs"), &mut pages);
    let named: Vec<_> = pages.iter().flat_map(|page| files(page)).collect();
    assert!(named.len() > 50, "{}", named.len());
    for file in named {
        assert!(root().join(file).is_file(), "{file}");
    }
}
