//! The alerts and the dashboard: valid, tested, explained, and only with existing metrics.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use regex::Regex;
use runtime::metrics::{PROGRAM, Values};
use serde_json::Value;

use crate::metrics::documented;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

fn yaml(path: &str) -> Value {
    serde_saphyr::from_str(&read(path)).unwrap()
}

fn alerts() -> Vec<Value> {
    let files = [
        "alerts.yaml",
        "alerts-ovn-writer.yaml",
        "alerts-policy-writer.yaml",
    ];
    let groups = files.map(|file| yaml(&format!("deploy/chart/files/{file}"))["groups"].clone());
    let groups = groups.iter().flat_map(|it| it.as_array().unwrap());
    let rules = groups.flat_map(|group| group["rules"].as_array().unwrap().clone());
    rules.collect()
}

fn expressions_of_the_dashboard() -> Vec<String> {
    let dashboard: Value =
        serde_json::from_str(&read("deploy/chart/files/dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap());
    let expressions: Vec<_> = targets
        .map(|target| {
            target["expr"]
                .as_str()
                .unwrap()
                .replace("$__rate_interval", "5m")
        })
        .collect();
    assert!(expressions.len() > 20);
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len());
    expressions
}

fn promtool(args: &[&str], folder: &Path) {
    let output = Command::new("promtool")
        .args(args)
        .current_dir(folder)
        .output();
    let output = output.expect("promtool, which scripts/setup installs");
    let text = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
    assert!(output.status.success(), "{}", text.concat());
}

#[test]
fn the_alerts_fire_when_they_should_and_say_what_they_should() {
    promtool(&["test", "rules", "alerts.yaml"], &root().join("tests"));
}

#[test]
fn the_expressions_of_the_dashboard_are_valid() {
    let folder = tempfile::tempdir().unwrap();
    let rule = |expr: &String| serde_json::json!({"record": "panel", "expr": expr, "labels": {"of": expr}});
    let rules: Vec<_> = expressions_of_the_dashboard().iter().map(rule).collect();
    let groups = serde_json::json!({"groups": [{"name": "dashboard", "rules": rules}]});
    fs::write(folder.path().join("rules.json"), groups.to_string()).unwrap();
    promtool(&["check", "rules", "rules.json"], folder.path());
}

#[test]
fn alerts_and_dashboard_ask_for_metrics_and_labels_that_the_programs_have() {
    let metric = Regex::new(r"\b([a-z]+(?:_[a-z]+)+)\b(?:\{([^}]*)\})?(\s*\()?").unwrap();
    let matcher = Regex::new(r#"([a-z_]+)\s*(?:=~|=|!=|!~)\s*"([^"]*)""#).unwrap();
    let words = Regex::new(r"\b(?:by|without|on|ignoring)\s*\([^)]*\)").unwrap();
    // Labels that every series has. The scraper adds the first three.
    let of_all = ["namespace", "pod", "node", PROGRAM];
    let mut expressions = expressions_of_the_dashboard();
    expressions.extend(
        alerts()
            .iter()
            .map(|alert| alert["expr"].as_str().unwrap().to_owned()),
    );
    let mut metrics = 0;
    for expression in expressions {
        let bare = words.replace_all(&expression, "");
        for found in metric.captures_iter(&bare) {
            if found.get(3).is_some() {
                // A function.
                continue;
            }
            let name = &found[1];
            if name.starts_with("kube_") {
                // Of kube-state-metrics, for all objects of the cluster.
                assert!(
                    found
                        .get(2)
                        .is_some_and(|it| it.as_str().contains("namespace="))
                );
                continue;
            }
            let known = documented(name).unwrap_or_else(|| panic!("{name} in {expression}"));
            metrics += 1;
            // Other applications have series of the same name.
            let labels = found.get(2).map_or("", |it| it.as_str());
            assert!(
                name.starts_with("egress_") || labels.contains("program="),
                "{name} in {expression}"
            );
            for label in matcher.captures_iter(labels) {
                let (label, value) = (&label[1], &label[2]);
                if of_all.contains(&label) {
                    continue;
                }
                let mut labels = known.labels.iter();
                let known = labels.find(|it| it.name == label);
                let known = known.unwrap_or_else(|| panic!("{label} in {expression}"));
                if let Values::OneOf(values) = known.values {
                    let mut asked = value.split('|');
                    let is_known = asked.all(|value| values.contains(&value));
                    assert!(is_known, "{label}={value} in {expression}");
                }
            }
        }
    }
    assert!(metrics > 40, "{metrics}");
}
