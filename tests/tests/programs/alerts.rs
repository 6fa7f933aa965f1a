//! The alerts and the dashboard: valid, tested, explained, and only with existing metrics.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use regex::Regex;
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
fn alerts_and_dashboard_ask_for_metrics_that_the_programs_have() {
    let ours = Regex::new(r"\begress_[a-z_]+").unwrap();
    let of_alerts = alerts().into_iter().map(|it| it["expr"].to_string());
    let all = expressions_of_the_dashboard().into_iter().chain(of_alerts);
    let all: String = all.collect();
    let names: BTreeSet<_> = ours.find_iter(&all).map(|it| it.as_str()).collect();
    assert!(names.len() > 20, "{names:?}");
    let unknown: Vec<_> = names.iter().filter(|it| documented(it).is_none()).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}
