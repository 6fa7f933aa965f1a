//! `egress corefile patch --live` on the ConfigMaps of platforms.

use std::{collections::BTreeMap, fs, path::Path, process::Stdio};

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Service},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tests::{kube::ApiServer, or_skip, programs::program, wait::eventually, workdir::Workdir};
use tokio::{io::AsyncWriteExt, process::Command};

use crate::installation::{COREFILE, DNS_NAMESPACE, Installation, NAMESPACE, SERVICES};

const CUSTOM: &str = "coredns-custom";

/// The words of a cluster without a pod of a collector.
const UNSEEN: &str =
    "the streams cannot be seen, run `egress check` later: namespace egress-by-name has no pod";

/// What the command says, and its exit status.
async fn patch(server: &ApiServer, args: &[&str]) -> (i32, String) {
    let output = Command::new(program("egress"))
        .args(["corefile", "patch", "--live"])
        .args(args)
        .env("KUBECONFIG", server.kubeconfig())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.code().unwrap(),
        String::from_utf8(said).unwrap(),
    )
}

fn corefile_of(platform: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/corefile/field");
    fs::read_to_string(folder.join(platform)).unwrap()
}

fn maps(client: &Client, namespace: &str) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), namespace)
}

async fn make(client: &Client, namespace: &str, map: Value) {
    let map = serde_json::from_value(map).unwrap();
    let (maps, params) = (maps(client, namespace), PostParams::default());
    maps.create(&params, &map).await.unwrap();
}

/// A cluster with the collectors' Services.
async fn cluster() -> (ApiServer, Client) {
    let server = ApiServer::start().await;
    let client = server.client().await;
    server.make_namespace(NAMESPACE).await;
    let services: Api<Service> = Api::namespaced(client.clone(), NAMESPACE);
    for (name, ip) in SERVICES {
        let service = json!({
            "metadata": { "name": name, "labels": { "app.kubernetes.io/component": "collector" } },
            "spec": { "clusterIP": ip, "ports": [{ "name": "dnstap-tcp", "port": 6000 }, { "name": "hold", "port": 5300, "protocol": "UDP" }] },
        });
        let service = serde_json::from_value(service).unwrap();
        services
            .create(&PostParams::default(), &service)
            .await
            .unwrap();
    }
    (server, client)
}

/// The data of both ConfigMaps, with the version of the first.
async fn state(client: &Client, name: &str) -> (String, [Option<BTreeMap<String, String>>; 2]) {
    let maps = maps(client, DNS_NAMESPACE);
    let main = maps.get(name).await.unwrap();
    let custom = maps.get_opt(CUSTOM).await.unwrap();
    let version = main.resource_version().unwrap();
    (
        version,
        [main.data, custom.map(|it| it.data.unwrap_or_default())],
    )
}

/// A platform with its ConfigMap, the data of `coredns-custom` if it has one, and the key with the lines.
struct Platform {
    corefile: &'static str,
    name: &'static str,
    annotation: &'static str,
    custom: Option<Value>,
    key: &'static str,
}

const PLATFORM: Platform = Platform {
    corefile: "kubeadm",
    name: "coredns",
    annotation: "none",
    custom: None,
    key: "Corefile",
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_come_into_the_config_map_of_each_platform_and_go_to_the_byte() {
    let (server, client) = cluster().await;
    let lines = SERVICES.map(|(_, ip)| format!("dnstap tcp://{ip}:6000 full\n"));
    let corp = "corp.example:53 {\n    forward . 192.0.2.9\n}\n";
    for platform in [
        PLATFORM,
        Platform {
            corefile: "k3s",
            key: "egress-by-name.override",
            ..PLATFORM
        },
        Platform {
            corefile: "rke2",
            name: "rke2-coredns-rke2-coredns",
            annotation: "meta.helm.sh/release-name",
            ..PLATFORM
        },
        Platform {
            corefile: "eks",
            annotation: "eks.amazonaws.com/component",
            ..PLATFORM
        },
        Platform {
            corefile: "aks",
            custom: Some(json!({ "corp.server": corp, "log.override": "log\n" })),
            key: "egress-by-name.override",
            ..PLATFORM
        },
        Platform {
            corefile: "ovhcloud",
            custom: Some(json!({})),
            key: "egress-by-name.include",
            ..PLATFORM
        },
    ] {
        let (name, what) = (platform.name, platform.corefile);
        let main = json!({
            "metadata": { "name": name, "annotations": { platform.annotation: "x" } },
            "data": { "Corefile": corefile_of(what), "other": "x" },
        });
        make(&client, DNS_NAMESPACE, main).await;
        if let Some(data) = platform.custom {
            let custom = json!({ "metadata": { "name": CUSTOM }, "data": data });
            make(&client, DNS_NAMESPACE, custom).await;
        }
        let (version, before) = state(&client, name).await;

        let (status, diff) = patch(&server, &[]).await;
        assert_eq!(status, 0, "{what}: {diff}");
        assert!(diff.contains("\n+"), "{what}: {diff}");
        let unchanged = (version, before.clone());
        assert_eq!(state(&client, name).await, unchanged, "{what}");

        let (status, said) = patch(&server, &["--apply"]).await;
        assert_eq!(status, 2, "{what}: {said}");
        assert!(said.contains("Applied."), "{what}: {said}");
        assert!(said.contains(UNSEEN), "{what}: {said}");
        let warns = said.contains(&format!("manages ConfigMap kube-system/{name}"));
        assert_eq!(warns, platform.annotation != "none", "{what}: {said}");
        let after = state(&client, name).await;
        let all: BTreeMap<_, _> = after.1.iter().flatten().flatten().collect();
        for line in &lines {
            let text = all[&platform.key.to_owned()];
            assert!(text.contains(line), "{what}: {text}");
        }
        if let Some(server) = all.get(&"corp.server".to_owned()) {
            assert!(server.contains(&lines[0]), "{what}: {server}");
        }

        let (status, said) = patch(&server, &["--apply"]).await;
        assert_eq!(status, 2, "{what}: {said}");
        assert!(said.contains("No change is needed."), "{what}: {said}");
        assert_eq!(state(&client, name).await, after, "{what}");

        let (status, said) = patch(&server, &["--hold", "--apply"]).await;
        assert_eq!(status, 0, "{what}: {said}");
        let held = state(&client, name).await.1;
        let forwarders = SERVICES.map(|(_, ip)| format!("{ip}:5300")).join(" ");
        let texts = held.iter().flatten().flat_map(BTreeMap::values);
        let mut texts = texts.filter(|text| text.contains(&forwarders));
        // OVHcloud's `forward` has a policy of its own.
        let is_named = said.contains("it has a `policy`, `max_fails` or `health_check` of its own");
        assert!(
            texts.next().is_some() != is_named,
            "{what}: {said} {held:?}"
        );
        assert_eq!(is_named, what == "ovhcloud", "{said}");
        let (status, said) = patch(&server, &["--hold", "--remove", "--apply"]).await;
        assert_eq!(status, 0, "{what}: {said}");
        assert_eq!(state(&client, name).await.1, after.1, "{what}");

        let (status, said) = patch(&server, &["--remove", "--apply"]).await;
        assert_eq!(status, 0, "{what}: {said}");
        assert_eq!(state(&client, name).await.1, before, "{what}");

        let maps = maps(&client, DNS_NAMESPACE);
        for name in [name, CUSTOM] {
            let gone = maps.delete(name, &DeleteParams::default()).await;
            assert!(gone.is_ok() || name == CUSTOM, "{gone:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_whose_corefile_cannot_be_changed_is_refused_with_the_reason() {
    let (server, client) = cluster().await;
    let refuses = async |args: &[&str], words: &str| {
        let (status, said) = patch(&server, args).await;
        assert_eq!(status, 2, "{said}");
        assert!(said.contains(words), "{said}");
    };
    refuses(&["--apply"], "no ConfigMap of CoreDNS is found").await;
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), DNS_NAMESPACE);
    let labels = json!({ "k8s-app": "kube-dns" });
    let gke = json!({
        "metadata": { "name": "kube-dns" },
        "spec": {
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "kubedns", "image": "kube-dns" }] } },
        },
    });
    let gke = serde_json::from_value(gke).unwrap();
    let post = PostParams::default();
    deployments.create(&post, &gke).await.unwrap();
    refuses(&["--apply"], "as on GKE. It has no dnstap").await;

    server.make_namespace("openshift-dns").await;
    let map = json!({ "metadata": { "name": "dns-default" }, "data": { "Corefile": corefile_of("openshift") } });
    make(&client, "openshift-dns", map).await;
    for args in [&[][..], &["--corefile", "openshift-dns/dns-default"]] {
        refuses(args, "docs/openshift.md").await;
    }
    let map = json!({ "metadata": { "name": "dns" }, "data": { "Corefile": ". {\n  errors }\n" } });
    make(&client, NAMESPACE, map).await;
    let named = ["--corefile", "egress-by-name/dns"];
    refuses(&named, "line 2: a `}` behind `errors`").await;
}

/// Runs the command at a terminal, which `script` makes, and answers its question after a change. Returns what it says, and its exit status.
async fn answered(
    server: &ApiServer,
    answer: &str,
    change: impl AsyncFnOnce(),
) -> (Option<i32>, String) {
    let folder = Workdir::new();
    let log = folder.join("terminal");
    let command = format!(
        "{} corefile patch --live --apply",
        program("egress").display()
    );
    let mut child = Command::new("script")
        .args(["--quiet", "--return", "--flush", "--command", &command])
        .arg(&log)
        .env("KUBECONFIG", server.kubeconfig())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let said = || fs::read_to_string(&log).unwrap_or_default();
    eventually("the question", async || {
        let said = said();
        said.contains("[y/N]").then_some(()).ok_or(said)
    })
    .await;
    change().await;
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(answer.as_bytes()).await.unwrap();
    let status = child.wait().await.unwrap();
    (status.code(), said())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_a_terminal_the_command_asks_and_a_change_meanwhile_stays() {
    let (server, client) = cluster().await;
    let map = json!({ "metadata": { "name": "coredns" }, "data": { "Corefile": corefile_of("kubeadm") } });
    make(&client, DNS_NAMESPACE, map).await;
    let (_, [before, _]) = state(&client, "coredns").await;

    let (status, said) = answered(&server, "n\n", async || {}).await;
    assert_eq!(status, Some(1), "{said}");
    assert_eq!(state(&client, "coredns").await.1[0], before, "{said}");

    let changed = async || {
        let change = Patch::Merge(json!({ "data": { "other": "x" } }));
        let maps = maps(&client, DNS_NAMESPACE);
        let params = PatchParams::default();
        maps.patch("coredns", &params, &change).await.unwrap();
    };
    let (status, said) = answered(&server, "y\n", changed).await;
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("was changed meanwhile"), "{said}");
    let (_, [after, _]) = state(&client, "coredns").await;
    assert_eq!(
        after.as_ref().unwrap()["Corefile"],
        before.unwrap()["Corefile"]
    );
    assert_eq!(after.unwrap()["other"], "x");
}

/// CoreDNS's processes have the lines, and the ConfigMap may lack them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn applied_lines_are_followed_by_the_streams_that_the_collectors_receive() {
    let it = or_skip!(Installation::start().await);
    let maps = maps(&it.server.client().await, DNS_NAMESPACE);
    let without: String = COREFILE
        .split_inclusive('\n')
        .filter(|line| !line.contains("dnstap"))
        .collect();
    let change = Patch::Merge(json!({ "data": { "Corefile": without } }));
    let params = PatchParams::default();
    maps.patch("coredns", &params, &change).await.unwrap();
    let (status, said) = patch(&it.server, &["--apply"]).await;
    assert_eq!(status, 0, "{said}");
    assert!(
        said.contains("✓ dnstap streams: received from 2 DNS servers by 2 collectors"),
        "{said}"
    );
    let map = maps.get("coredns").await.unwrap();
    let corefile = &map.data.unwrap()["Corefile"];
    assert_eq!(corefile.matches("dnstap tcp://").count(), 2, "{corefile}");
}
