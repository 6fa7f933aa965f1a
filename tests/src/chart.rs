//! The Helm chart in `deploy/chart`, as `helm template` renders it.

use std::{
    path::PathBuf,
    process::{Command, Output},
};

use kube::{ResourceExt, api::DynamicObject};

use crate::{kube::deploy, programs::tool};

pub const RELEASE: &str = "egress-by-name";

/// The collector's ServiceAccount, roles and Service.
pub const COLLECTOR: &str = "egress-by-name-collector";

/// The ovn-writer's ServiceAccount and roles.
pub const OVN_WRITER: &str = "egress-by-name-ovn-writer";

/// The policy-writer's ServiceAccount and roles.
pub const POLICY_WRITER: &str = "egress-by-name-policy-writer";

/// Several ovn-writers of one database.
pub const CENTRAL: [&str; 4] = [
    "--set",
    "ovnWriter.mode=central",
    "--set",
    "ovnWriter.central.remotes=tcp:192.0.2.1:6641",
];

pub fn folder() -> PathBuf {
    deploy("chart")
}

/// The example values files for all kinds of clusters, sorted.
pub fn cases() -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder().join("ci")).expect("the cases");
    let mut files: Vec<PathBuf> = files.map(|file| file.expect("a case").path()).collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

/// Runs helm, isolated from the user's configuration.
pub fn helm(args: &[&str]) -> Output {
    let mut command = Command::new(tool("helm"));
    command.args(args);
    for folder in ["CACHE", "CONFIG", "DATA"] {
        command.env(format!("HELM_{folder}_HOME"), "/nonexistent");
    }
    command.output().expect("helm")
}

/// Without the CRDs, which the tests' API server has, and for the oldest Kubernetes that the chart accepts.
const DEFAULTS: [&str; 8] = [
    "--kube-version",
    "1.30.0",
    "--set",
    "crds.dnsNameResolvers=false",
    "--set",
    "crds.egressFirewalls=false",
    "--set",
    "crds.dnsResolvers=false",
];

/// What helm says of the chart without its tests; the arguments are flags such as `--set ovnWriter.mode=none`.
///
/// # Errors
/// helm's error message.
pub fn template(namespace: &str, flags: &[&str]) -> Result<String, String> {
    run_template(namespace, &[&["--skip-tests"], flags].concat())
}

/// The objects of `helm test`, as text.
///
/// # Panics
/// If helm refuses.
pub fn template_of_tests(namespace: &str, flags: &[&str]) -> String {
    let alone = ["--show-only", "templates/tests/check.yaml"];
    run_template(namespace, &[&alone, flags].concat()).expect("the objects of the test")
}

fn run_template(namespace: &str, flags: &[&str]) -> Result<String, String> {
    let chart = folder();
    let chart = chart.to_str().expect("a path in UTF-8");
    let args = ["template", RELEASE, chart, "--namespace", namespace];
    let output = helm(&[&args, &DEFAULTS[..], flags].concat());
    if output.status.success() {
        Ok(String::from_utf8(output.stdout).expect("UTF-8"))
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// The objects of a text with manifests.
pub fn objects(text: &str) -> Vec<DynamicObject> {
    let text = text.strip_prefix("---\n").unwrap_or(text);
    let is_said = |line: &str| !line.is_empty() && !line.starts_with('#');
    let documents = text.split("\n---\n").filter(|it| it.lines().any(is_said));
    let read = documents
        .map(|it| serde_saphyr::from_str(it).unwrap_or_else(|error| panic!("{error}: {it}")));
    read.collect()
}

/// The objects that the chart would install.
///
/// # Panics
/// If helm refuses.
pub fn render(namespace: &str, flags: &[&str]) -> Vec<DynamicObject> {
    objects(&template(namespace, flags).unwrap_or_else(|error| panic!("{flags:?}: {error}")))
}

/// The object of this kind and name.
///
/// # Panics
/// If there is none.
pub fn find<'a>(objects: &'a [DynamicObject], kind: &str, name: &str) -> &'a DynamicObject {
    let is_it = |it: &&DynamicObject| kind_of(it) == kind && it.name_any() == name;
    let found = objects.iter().find(is_it);
    found.unwrap_or_else(|| panic!("there is no {kind} {name}"))
}

pub fn kind_of(object: &DynamicObject) -> &str {
    object.types.as_ref().map_or("", |types| &types.kind)
}
