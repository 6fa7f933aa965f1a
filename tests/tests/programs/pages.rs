//! What the pages in `docs` say of the tests.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The names of all functions in the sources below a folder.
fn functions(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            functions(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let names = text.split("fn ").skip(1).filter_map(|rest| {
                rest.split(|c: char| !c.is_alphanumeric() && c != '_')
                    .next()
            });
            found.extend(names.map(str::to_owned));
        }
    }
}

#[test]
fn every_test_that_the_page_of_behaviours_names_is_there() {
    let mut there = BTreeSet::new();
    for package in ["proto", "runtime", "collector", "ovn-writer", "tests"] {
        for folder in ["src", "tests"] {
            let folder = root().join(package).join(folder);
            if folder.is_dir() {
                functions(&folder, &mut there);
            }
        }
    }
    let page = fs::read_to_string(root().join("docs/behaviours.md")).unwrap();
    let lines = page.lines().filter(|line| line.starts_with("| "));
    let last_cells = lines.skip(1).filter_map(|line| line.rsplit(" | ").next());
    let named: Vec<&str> = last_cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect();
    assert!(named.len() > 50, "{named:?}");
    let missing: Vec<&&str> = named
        .iter()
        .filter(|name| !there.contains(**name))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn what_contributors_are_told_to_read_and_run_is_there() {
    let page = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let quoted = page.split('`').skip(1).step_by(2);
    let words = quoted.flat_map(str::split_whitespace);
    let is_path = |word: &&str| {
        let folders = [
            "scripts/",
            "docs/",
            "tests/",
            "deploy/",
            "collector/",
            "ovn-writer/",
            ".ci/",
        ];
        folders.iter().any(|folder| word.starts_with(folder))
    };
    let paths: BTreeSet<&str> = words.filter(is_path).collect();
    assert!(paths.len() > 10, "{paths:?}");
    let missing: Vec<&&str> = paths
        .iter()
        .filter(|path| !root().join(path).exists())
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
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
