//! The Helm chart on a real API server.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use kube::ResourceExt;
use tests::{
    chart::{self, kind_of},
    kube::{ApiServer, deploy},
    programs::tool,
    wait::eventually,
    workdir::Workdir,
};

/// Set to anything to write the manifests instead of comparing them.
const UPDATE: &str = "UPDATE_GENERATED";

/// The namespace of the programs in the manifests.
const NAMESPACE: &str = "egress-by-name";

/// The manifests, and helm's flags for them.
const MANIFESTS: [(&str, &[&str]); 3] = [
    ("interconnect", &[]),
    (
        "central",
        &[
            "--set",
            "ovnWriter.mode=central",
            "--set",
            r"ovnWriter.central.remotes=ssl:192.0.2.1:6641\,ssl:192.0.2.2:6641\,ssl:192.0.2.3:6641",
            "--set",
            "ovnWriter.central.tls.secretName=ovn-certificates",
        ],
    ),
    ("own-resolver", &["--set", "ovnWriter.mode=none"]),
];

/// kubectl, as administrator.
fn kubectl(server: &ApiServer, args: &[&str]) -> Output {
    let mut command = Command::new(tool("kubectl"));
    command.arg("--kubeconfig").arg(server.kubeconfig());
    command
        .arg("--cache-dir")
        .arg(server.folder().join("kubectl"));
    command.args(args).output().expect("kubectl")
}

fn succeeded(what: &str, output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{what}: {errors}{out}");
    out
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

fn manifest(flags: &[&str]) -> String {
    let rendered = chart::template(NAMESPACE, flags).unwrap();
    let is_helms = |line: &&str| {
        line.starts_with("# Source:")
            || line.contains("helm.sh/chart:")
            || line.contains("app.kubernetes.io/managed-by:")
    };
    let lines: Vec<&str> = rendered.lines().filter(|line| !is_helms(line)).collect();
    format!(
        "# Generated from deploy/chart by `helm template`; see tests/tests/kube/chart.rs. The CRDs are in deploy/chart/files/crds.\n\
         apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {NAMESPACE}\n  labels:\n    \
         # The ovn-writer mounts OVN's sockets from the host.\n    \
         pod-security.kubernetes.io/enforce: privileged\n{}\n",
        lines.join("\n")
    )
}

fn manifest_path(name: &str) -> PathBuf {
    deploy("manifests").join(format!("{name}.yaml"))
}

#[test]
fn the_manifests_are_what_the_chart_renders() {
    for (name, flags) in MANIFESTS {
        let (path, rendered) = (manifest_path(name), manifest(flags));
        if std::env::var_os(UPDATE).is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &rendered).unwrap();
        }
        assert!(
            fs::read_to_string(&path).unwrap_or_default() == rendered,
            "{} is not what the chart gives; run this test with {UPDATE}=1",
            path.display(),
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_server_takes_what_every_case_renders() {
    let server = ApiServer::start().await;
    for namespace in [
        NAMESPACE,
        "ovn-kubernetes",
        "openshift-ovn-kubernetes",
        "openshift-dns",
        "egress-dns",
    ] {
        server.make_namespace(namespace).await;
    }
    for kinds in ["monitoring", "openshift"] {
        let file = format!("tests/kube/{kinds}.yaml");
        server
            .create(&Path::new(env!("CARGO_MANIFEST_DIR")).join(file))
            .await;
    }
    let workdir = Workdir::new();
    let mut files: Vec<PathBuf> = MANIFESTS
        .iter()
        .map(|(name, _)| manifest_path(name))
        .collect();
    let mut objects = Vec::new();
    for case in chart::cases() {
        let folder = chart::folder();
        let lint = chart::helm(&["lint", "--strict", path(&folder), "--values", path(&case)]);
        succeeded("helm lint", &lint);
        let rendered = chart::template(NAMESPACE, &["--values", path(&case)]).unwrap();
        objects.extend(chart::objects(&rendered));
        let of_test = chart::template_of_tests(NAMESPACE, &["--values", path(&case)]);
        objects.extend(chart::objects(&of_test));
        let name = case.file_name().unwrap().to_str().unwrap();
        let texts = [
            (name.to_owned(), rendered),
            (format!("test-{name}"), of_test),
        ];
        for (name, text) in texts {
            let file = workdir.join(&name);
            fs::write(&file, text).unwrap();
            files.push(file);
        }
    }
    // A dry run makes no account for the pod of `helm test`.
    let checks = objects
        .iter()
        .filter(|it| kind_of(it) == "ServiceAccount" && it.name_any().ends_with("-check"));
    let checks: BTreeSet<String> = checks.map(ResourceExt::name_any).collect();
    for name in checks {
        server.make_account(NAMESPACE, &name).await;
    }
    for file in files {
        let dry_run = [
            "apply",
            "--server-side",
            "--dry-run=server",
            "--validate=strict",
            "--filename",
            path(&file),
        ];
        eventually("it is taken", async || {
            let output = kubectl(&server, &dry_run);
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            // Prometheus' CRDs are served a moment after their creation.
            match output.status.success() {
                false if errors.contains("no matches for kind") => Err(errors),
                _ => Ok(succeeded(path(&file), &output)),
            }
        })
        .await;
    }
}
