//! The Helm chart on a real API server.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use k8s_openapi::{
    api::{
        apps::v1::DaemonSet,
        core::v1::{ConfigMap, Pod, Service, ServiceAccount},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use proto::api::DnsNameResolver;
use serde_json::json;
use tests::{
    chart::{self, COLLECTOR, OVN_WRITER, RELEASE, kind_of},
    kube::{ApiServer, deploy},
    programs::{program, tool},
    wait::eventually,
    workdir::Workdir,
};

use crate::status_writers::guards_the_statuses;

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

fn helm(server: &ApiServer, args: &[&str]) -> String {
    let kubeconfig = server.kubeconfig();
    let of = [
        "--kubeconfig",
        kubeconfig.to_str().unwrap(),
        "--namespace",
        NAMESPACE,
    ];
    let output = chart::helm(&[args, &of[..]].concat());
    succeeded(&format!("helm {args:?}"), &output)
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
    let accounts: Api<ServiceAccount> = Api::namespaced(server.client().await, NAMESPACE);
    let checks = objects
        .iter()
        .filter(|it| kind_of(it) == "ServiceAccount" && it.name_any().ends_with("-check"));
    let checks: BTreeSet<String> = checks.map(ResourceExt::name_any).collect();
    for name in checks {
        let account = json!({"metadata": {"name": name}});
        let account = serde_json::from_value(account).unwrap();
        let post = PostParams::default();
        accounts.create(&post, &account).await.unwrap();
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
    admits_the_pods(&server, &objects).await;
}

/// Pod Security Admission lets all pods into a restricted namespace, except those that mount OVN's sockets.
async fn admits_the_pods(server: &ApiServer, objects: &[DynamicObject]) {
    let client = server.client().await;
    for level in ["restricted", "privileged"] {
        server.make_namespace(level).await;
        let label = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": level}}});
        let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client.clone());
        let params = PatchParams::default();
        namespaces
            .patch(level, &params, &Patch::Merge(label))
            .await
            .unwrap();
    }
    let mut seen = 0;
    for object in objects {
        let kind = kind_of(object);
        let (labels, spec) = match kind {
            "Deployment" | "DaemonSet" => {
                let template = &object.data["spec"]["template"];
                (template["metadata"]["labels"].clone(), &template["spec"])
            }
            "Pod" => (json!(object.labels()), &object.data["spec"]),
            _ => continue,
        };
        seen += 1;
        let pod = json!({
            "metadata": {"name": format!("pod-{seen}"), "labels": labels},
            "spec": spec,
        });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let account = pod.spec.as_ref().unwrap().service_account_name.clone();
        for (level, fits) in [("restricted", kind != "DaemonSet"), ("privileged", true)] {
            let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), level);
            let account = json!({"metadata": {"name": account}});
            // It may exist.
            let _made = accounts
                .create(
                    &PostParams::default(),
                    &serde_json::from_value(account).unwrap(),
                )
                .await;
            let pods: Api<Pod> = Api::namespaced(client.clone(), level);
            let made = pods
                .create(
                    &PostParams {
                        dry_run: true,
                        ..PostParams::default()
                    },
                    &pod,
                )
                .await;
            match made {
                Ok(_) => assert!(fits, "{kind} {}", object.name_any()),
                Err(error) => {
                    let said = error.to_string();
                    assert!(!fits && said.contains("violates PodSecurity"), "{said}");
                }
            }
        }
    }
    assert!(seen >= 8, "{seen}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_command_installs_it_and_one_more_makes_coredns_stream() {
    let server = ApiServer::start().await;
    let client = server.client().await;
    server.make_namespace("ovn-kubernetes").await;
    // One of the CRDs exists already and belongs to another owner, and one is missing.
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let firewalls = "egressfirewalls.k8s.ovn.org";
    crds.delete(firewalls, &DeleteParams::default())
        .await
        .unwrap();
    let theirs = json!({"metadata": {"annotations": {"of": "somebody else"}}});
    let resolvers = "dnsnameresolvers.network.openshift.io";
    let patch = Patch::Merge(theirs);
    crds.patch(resolvers, &PatchParams::default(), &patch)
        .await
        .unwrap();
    eventually("the CRD is gone", async || {
        let found = crds
            .get_opt(firewalls)
            .await
            .map_err(|error| error.to_string())?;
        found
            .is_none()
            .then_some(())
            .ok_or_else(|| "it is there".to_owned())
    })
    .await;

    let folder = chart::folder();
    let install = [
        "upgrade",
        "--install",
        RELEASE,
        path(&folder),
        "--create-namespace",
    ];
    let first = helm(&server, &install);
    crds.get(firewalls).await.unwrap();
    let kept = crds.get(resolvers).await.unwrap();
    assert_eq!(kept.annotations()["of"], "somebody else");

    let corefile = ".:53 {\n    errors\n    forward . /etc/resolv.conf\n    cache 30\n}\n";
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-system");
    let map = json!({"metadata": {"name": "coredns"}, "data": {"Corefile": corefile}});
    maps.create(
        &PostParams::default(),
        &serde_json::from_value(map).unwrap(),
    )
    .await
    .unwrap();
    let (_, notes) = first.split_once("NOTES:\n").unwrap();
    assert!(notes.lines().count() <= 25, "{notes}");
    let mut patched = Vec::new();
    for _ in 0..2 {
        run_of_notes(&server, notes, "get configmap");
        let map = maps.get("coredns").await.unwrap();
        patched.push(map.data.unwrap()["Corefile"].clone());
    }
    assert_eq!(patched[0], patched[1], "the second time changes nothing");
    let lines = run_of_notes(&server, notes, "get service");
    assert_eq!(lines.lines().count(), 2, "{lines}");
    let services: Api<Service> = Api::namespaced(client.clone(), NAMESPACE);
    for instance in [COLLECTOR.to_owned(), format!("{COLLECTOR}-2")] {
        let service = services.get(&instance).await.unwrap();
        let address = service.spec.and_then(|spec| spec.cluster_ip).unwrap();
        let line = format!("dnstap tcp://{address}:6000 full\n");
        assert!(patched[1].contains(&format!("    {line}")), "{patched:?}");
        assert!(lines.contains(&line), "{lines}");
    }
    let writers: Api<DaemonSet> = Api::namespaced(client.clone(), NAMESPACE);
    let writer = serde_json::to_value(writers.get(OVN_WRITER).await.unwrap()).unwrap();
    let args = writer["spec"]["template"]["spec"]["containers"][0]["args"].to_string();
    assert!(args.contains("--deny-answer=10.96.0.0/16"), "{args}");
    guards_the_statuses(&server, "ovn-kubernetes", &[(NAMESPACE, COLLECTOR)]).await;

    // Learned addresses outlive the programs.
    helm(&server, &["uninstall", RELEASE]);
    let objects: Api<DnsNameResolver> = Api::namespaced(client, "ovn-kubernetes");
    assert!(objects.get("www").await.unwrap().status.is_some());
    crds.get(firewalls).await.unwrap();
}

/// The command of the notes that begins with a line with these words, where there is no kubelet for `kubectl exec`.
fn run_of_notes(server: &ApiServer, notes: &str, words: &str) -> String {
    let commands: Vec<&str> = notes
        .lines()
        .skip_while(|line| !line.starts_with("    kubectl") || !line.contains(words))
        .take_while(|line| line.starts_with("    "))
        .collect();
    assert!(!commands.is_empty(), "{words}: {notes}");
    let script = format!(
        "set -euo pipefail
        kubectl() {{
            if [[ $3 == exec ]]; then shift 6; \"$@\"
            else command kubectl --kubeconfig {} --cache-dir {} \"$@\"; fi
        }}
        {}",
        server.kubeconfig().display(),
        server.folder().join("kubectl").display(),
        commands.join("\n"),
    );
    let mut bash = Command::new("bash");
    let output = bash
        .args(["-c", &script])
        .env("PATH", path_with_tools())
        .output();
    succeeded(&script, &output.unwrap())
}

/// The programs and the tools before what the machine has.
fn path_with_tools() -> String {
    let folders = [program("collector"), tool("kubectl")];
    let folders = folders
        .iter()
        .map(|path| path.parent().unwrap().display().to_string());
    let folders: Vec<String> = folders.chain(std::env::var("PATH")).collect();
    folders.join(":")
}
