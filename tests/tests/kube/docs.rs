//! Runs the commands in `docs` as they stand, in the order of each page: those in blocks marked `sh`. Blocks marked `text` show output,
//! or need programs that are not here.
//!
//! Each section of a page that installs the chart has an API server of its own. If it does not make the namespace, the commands of the
//! page's steps do so first. Programs that stand before the real ones do what needs a kubelet or a registry: `kubectl exec` runs the
//! collector of this build, and a rollout is over at once. CoreDNS's own chart comes from a folder, which helm prefers to a registry.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use k8s_openapi::{
    api::core::v1::ConfigMap,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::json;
use tests::{
    kube::{ApiServer, deploy},
    programs::{program, tool},
    wait::eventually,
    workdir::Workdir,
};

fn docs() -> PathBuf {
    deploy("..").join("docs")
}

/// What a section says that installs into a cluster without a release.
const FROM_NOTHING: [&str; 2] = [
    "helm install egress-by-name",
    "helm template egress-by-name",
];

/// The command that makes its namespace.
const MAKE_NAMESPACE: &str = "kubectl create namespace egress-by-name";

/// Whether a section installs into a cluster without a release.
fn is_from_nothing(section: &[String]) -> bool {
    section
        .iter()
        .any(|block| FROM_NOTHING.iter().any(|command| block.contains(command)))
}

/// The pages, and the sections of each that begin with nothing: a list of blocks.
fn commands() -> Vec<(PathBuf, Vec<Vec<String>>)> {
    let mut pages: Vec<PathBuf> = fs::read_dir(docs())
        .unwrap()
        .map(|page| page.unwrap().path())
        .filter(|page| page.extension().is_some_and(|extension| extension == "md"))
        .collect();
    pages.sort();
    let blocks = |section: &str| -> Vec<String> {
        let blocks = section.split("\n```sh\n").skip(1);
        blocks
            .map(|block| block.split("\n```").next().unwrap().to_owned())
            .collect()
    };
    let sections = |page: &Path| {
        let text = fs::read_to_string(page).unwrap();
        let mut sections: Vec<Vec<String>> = vec![Vec::new()];
        let makes_namespace = |block: &String| block.contains(MAKE_NAMESPACE);
        let namespace = blocks(&text).into_iter().find(makes_namespace);
        for mut found in text.split("\n## ").map(blocks) {
            if is_from_nothing(&found) {
                if !found.iter().any(makes_namespace) {
                    found.splice(0..0, namespace.clone());
                }
                sections.push(found);
            } else if let Some(last) = sections.last_mut() {
                last.extend(found);
            }
        }
        sections.retain(|section| !section.is_empty());
        sections
    };
    pages
        .into_iter()
        .map(|page| (page.clone(), sections(&page)))
        .collect()
}

/// The form that OpenShift's DNS operator gives it.
const OPENSHIFT: &str = ".:5353 {\n    bufsize 1232\n    errors\n    health {\n        lameduck 20s\n    }\n    ready\n    \
    kubernetes cluster.local in-addr.arpa ip6.arpa {\n        pods insecure\n        fallthrough in-addr.arpa ip6.arpa\n    }\n    \
    forward . /etc/resolv.conf {\n        policy sequential\n    }\n    cache 900\n    reload\n}\n\
    hostname.bind:5353 {\n    chaos\n}\n";

const NODE_LOCAL: &str =
    "cluster.local:53 {\n    forward . 10.96.0.10\n}\n.:53 {\n    forward . /etc/resolv.conf\n}\n";

/// CoreDNS by its chart.
const COREDNS: &str = "helm install coredns coredns --namespace kube-system";

/// What the clusters of all platforms have: namespaces, Corefiles, and kinds. A new one has no kind DNSNameResolver.
async fn surroundings(server: &ApiServer, workdir: &Workdir, is_new: bool) {
    let client = server.client().await;
    if is_new {
        let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
        let resolvers = "dnsnameresolvers.network.openshift.io";
        crds.delete(resolvers, &DeleteParams::default())
            .await
            .unwrap();
        eventually("the CRD is gone", async || {
            let found = crds.get_opt(resolvers).await;
            let found = found.map_err(|error| error.to_string())?;
            found.map_or(Ok(()), |_| Err("it is there".to_owned()))
        })
        .await;
    }
    for namespace in [
        "ovn-kubernetes",
        "openshift-ovn-kubernetes",
        "openshift-dns",
        "openshift-dns-operator",
    ] {
        server.make_namespace(namespace).await;
    }
    for (namespace, name, corefile) in [
        ("kube-system", "node-local-dns", NODE_LOCAL),
        ("kube-system", "nodelocaldns", NODE_LOCAL),
        ("openshift-dns", "dns-default", OPENSHIFT),
    ] {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        let map = json!({ "metadata": { "name": name }, "data": { "Corefile": corefile } });
        let map = serde_json::from_value(map).unwrap();
        maps.create(&PostParams::default(), &map).await.unwrap();
    }
    for kinds in ["openshift", "platforms"] {
        let file = format!("tests/kube/{kinds}.yaml");
        server
            .create(&Path::new(env!("CARGO_MANIFEST_DIR")).join(file))
            .await;
    }
    works("CoreDNS's chart", COREDNS, server, workdir);
}

/// Before the real programs in PATH. Each refuses what it was not made for.
const SHIMS: [(&str, &str); 3] = [
    (
        "kubectl",
        r#"case "$*" in
            *" rollout status "*) exit ;;
            *" exec "*)
                while [ "$1" != -- ]; do shift; done
                shift
                exec "$@" ;;
        esac
        exec "$REAL_KUBECTL" --cache-dir "$HOME/kubectl" "$@""#,
    ),
    (
        // No pod runs whose streams could be seen after a change.
        "egress",
        r#"case "$*" in
            *" --live --apply")
                said=$("$REAL_EGRESS" "$@" 2>&1) && exit
                echo "$said"
                case "$said" in
                    *"the streams cannot be seen"*) exit ;;
                    *) exit 1 ;;
                esac ;;
            *) exec "$REAL_EGRESS" "$@" ;;
        esac"#,
    ),
    (
        "image",
        r#"case "$1" in
            --load | --push) test -n "$2" ;;
            --output) touch "$2" ;;
            *) exit 2 ;;
        esac"#,
    ),
];

/// The folder in which the commands run: the chart, and the programs that stand before the real ones.
fn folder() -> Workdir {
    let workdir = Workdir::new();
    fs::create_dir(workdir.join("scripts")).unwrap();
    for (name, text) in SHIMS {
        let file = workdir.join(if name == "image" {
            "scripts/image"
        } else {
            name
        });
        fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    for name in ["deploy", "docs"] {
        symlink(docs().join("..").join(name), workdir.join(name)).unwrap();
    }
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/coredns-chart");
    symlink(chart, workdir.join("coredns")).unwrap();
    workdir
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_of_the_docs_works_as_it_stands() {
    let mut run = 0;
    let mut cluster = None;
    let pages = commands();
    for (page, sections) in pages {
        for section in sections {
            let is_new = is_from_nothing(&section);
            if is_new || cluster.is_none() {
                let (server, workdir) = (ApiServer::start().await, folder());
                surroundings(&server, &workdir, is_new).await;
                cluster = Some((server, workdir));
            }
            let (server, workdir) = cluster.as_ref().unwrap();
            let is_whole = is_new && section.iter().any(|block| block.contains("corefile"));
            for block in section {
                let page = page.display().to_string();
                works(&page, &block, server, workdir);
                run += 1;
            }
            // A platform with its Corefile is complete: the next page begins anew.
            if is_whole {
                cluster = None;
            }
        }
    }
    assert!(run > 20, "{run} commands");
}

fn works(page: &str, block: &str, server: &ApiServer, workdir: &Workdir) {
    let mut folders = vec![
        workdir.path().to_owned(),
        tool("kubectl").parent().unwrap().to_owned(),
        program("collector").parent().unwrap().to_owned(),
    ];
    folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
    let mut command = Command::new("bash");
    command
        .args(["-euo", "pipefail", "-c", block])
        .current_dir(workdir.path())
        .env("PATH", std::env::join_paths(&folders).unwrap())
        .env("REAL_KUBECTL", tool("kubectl"))
        .env("REAL_EGRESS", program("egress"))
        .env("KUBECONFIG", server.kubeconfig())
        .env("HOME", workdir.path());
    for folder in ["CACHE", "CONFIG", "DATA"] {
        command.env(format!("HELM_{folder}_HOME"), workdir.join("helm"));
    }
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(
        output.status.success(),
        "{page}:\n{block}\n{}",
        String::from_utf8_lossy(&said)
    );
}
