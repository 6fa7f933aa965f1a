//! Checks the statements of `docs` about the tests.

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

/// The number in the first cell of each line of the table.
fn numbers_of_behaviours() -> Vec<u32> {
    let page = fs::read_to_string(root().join("docs/behaviours.md")).unwrap();
    let lines = page.lines().filter_map(|line| line.strip_prefix("| "));
    let cells = lines.filter_map(|line| line.split(" | ").next());
    cells.filter_map(|cell| cell.parse().ok()).collect()
}

#[test]
fn every_behaviour_has_a_number_and_tests_that_exist() {
    let mut existing = BTreeSet::new();
    for package in ["proto", "runtime", "collector", "ovn-writer", "tests"] {
        for folder in ["src", "tests"] {
            let folder = root().join(package).join(folder);
            if folder.is_dir() {
                functions(&folder, &mut existing);
            }
        }
    }
    let behaviours = numbers_of_behaviours();
    assert!(behaviours.len() > 30, "{behaviours:?}");
    let ascending: Vec<u32> = (1..).take(behaviours.len()).collect();
    assert_eq!(behaviours, ascending, "the numbers in docs/behaviours.md");

    let index = fs::read_to_string(root().join("docs/behaviours-tests.md")).unwrap();
    let mut indexed = Vec::new();
    for section in index.split("\n## ").skip(1) {
        let (number, list) = section.split_once('\n').unwrap();
        indexed.push(number.parse::<u32>().unwrap());
        let named: Vec<&str> = list.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "behaviour {number} has no test");
        let missing: Vec<&&str> = named
            .iter()
            .filter(|name| !existing.contains(**name))
            .collect();
        assert!(missing.is_empty(), "behaviour {number}: {missing:?}");
    }
    assert_eq!(
        indexed, behaviours,
        "the sections of docs/behaviours-tests.md"
    );
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
