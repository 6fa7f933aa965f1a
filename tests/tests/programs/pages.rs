//! Paths, links and versions that pages name.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use regex::Regex;

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

/// The files below a folder whose names end so.
fn files(folder: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            files(&path, endings, found);
        } else if endings.iter().any(|ending| name.ends_with(ending)) {
            found.push(path);
        }
    }
}

/// The text outside of blocks of code.
fn prose(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let (mut lines, mut is_code) = (Vec::new(), false);
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            lines.push(line);
        }
    }
    lines.join("\n")
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(path: &Path) -> BTreeSet<String> {
    let is_kept = |char: &char| char.is_alphanumeric() || "-_ ".contains(*char);
    let anchor = |heading: &str| {
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept: String = heading.chars().filter(is_kept).collect();
        kept.replace(' ', "-")
    };
    let text = prose(path);
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(anchor).collect()
}

#[test]
fn every_link_leads_to_a_file_and_to_a_heading_of_it() {
    let docs = root().join("docs");
    let mut pages = [
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "deploy/chart/README.md",
    ]
    .map(|page| root().join(page))
    .to_vec();
    files(&docs, &[".md"], &mut pages);
    let link = Regex::new(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)").unwrap();
    // `troubleshooting.md#egressdnsblind`, with or without the folder before it, in programs and the chart.
    let mention =
        Regex::new(r"(?:docs/([a-z-]+\.md)(?:#([a-z0-9-]+))?|\b([a-z-]+\.md)#([a-z0-9-]+))")
            .unwrap();
    let mut wanted: Vec<(PathBuf, PathBuf, String)> = Vec::new();
    for page in &pages {
        for found in link.captures_iter(&prose(page)) {
            let target = match &found[1] {
                "" => page.clone(),
                link if link.contains("://") => continue,
                link => page.parent().unwrap().join(link),
            };
            let heading = found.get(2).map_or("", |it| it.as_str()).to_owned();
            wanted.push((page.clone(), target, heading));
        }
    }
    let mut sources = Vec::new();
    for folder in [
        "collector/src",
        "egress/src",
        "ovn-writer/src",
        "policy-writer/src",
        "runtime/src",
        "deploy",
        "scripts",
        "tests/src",
    ] {
        files(&root().join(folder), &[""], &mut sources);
    }
    for source in sources {
        let Ok(text) = fs::read_to_string(&source) else {
            continue;
        };
        for found in mention.captures_iter(&text) {
            let group = |first: usize, second: usize| {
                let found = found.get(first).or_else(|| found.get(second));
                found.map_or("", |it| it.as_str()).to_owned()
            };
            wanted.push((source.clone(), docs.join(group(1, 3)), group(2, 4)));
        }
    }
    assert!(wanted.len() > 200, "{} links", wanted.len());
    let mut known: BTreeMap<PathBuf, BTreeSet<String>> = BTreeMap::new();
    for (from, to, heading) in wanted {
        assert!(to.exists(), "{} names {}", from.display(), to.display());
        if !heading.is_empty() {
            let headings = known.entry(to.clone()).or_insert_with(|| anchors(&to));
            assert!(
                headings.contains(&heading),
                "{}: {}#{heading}",
                from.display(),
                to.display()
            );
        }
    }
}
