//! Paths and versions that pages name.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
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
fn files_on_the_way_of_an_answer_and_of_a_rule_exist_and_are_few() {
    let page = fs::read_to_string(root().join("docs/design.md")).unwrap();
    let (rule, end) = ("A name of a rule passes", "The policy-writer reads");
    for (from, to, most) in [
        ("An answer for a wanted name passes", rule, 25),
        (rule, end, 18),
    ] {
        let (_, rest) = page.split_once(from).unwrap();
        let (list, _) = rest.split_once(to).unwrap();
        let files: Vec<&str> = list.split('`').skip(1).step_by(2).collect();
        assert!(
            (1..=most).contains(&files.len()),
            "{} files: {from}",
            files.len()
        );
        for file in files {
            assert!(root().join(file).is_file(), "{file} is not in the tree");
        }
    }
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
