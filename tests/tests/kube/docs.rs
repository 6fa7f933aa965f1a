//! Runs the commands in `docs`, in the order of each page: those in blocks marked `sh`. Blocks marked `text` need a
//! node, or show output.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, api::PostParams};
use serde_json::json;
use tests::{
    kube::{ApiServer, deploy},
    programs::{program, tool},
    workdir::Workdir,
};

const COREFILE: &str = ".:53 {\n    errors\n    forward . /etc/resolv.conf\n    cache 30\n}\n";

fn docs() -> PathBuf {
    deploy("..").join("docs")
}

/// The pages, and the blocks of each.
fn commands() -> Vec<(PathBuf, Vec<String>)> {
    let mut pages: Vec<PathBuf> = fs::read_dir(docs())
        .unwrap()
        .map(|page| page.unwrap().path())
        .filter(|page| page.extension().is_some_and(|extension| extension == "md"))
        .collect();
    pages.sort();
    let blocks = |page: &Path| {
        let text = fs::read_to_string(page).unwrap();
        let blocks = text.split("\n```sh\n").skip(1);
        blocks
            .map(|block| block.split("\n```").next().unwrap().to_owned())
            .collect()
    };
    pages
        .into_iter()
        .map(|page| (page.clone(), blocks(&page)))
        .collect()
}

const NODE_LOCAL: &str =
    "cluster.local:53 {\n    forward . 10.96.0.10\n}\n.:53 {\n    forward . /etc/resolv.conf\n}\n";

async fn corefiles(server: &ApiServer) {
    let maps: Api<ConfigMap> = Api::namespaced(server.client().await, "kube-system");
    for (name, corefile) in [("coredns", COREFILE), ("node-local-dns", NODE_LOCAL)] {
        let map = json!({ "metadata": { "name": name }, "data": { "Corefile": corefile } });
        let map = serde_json::from_value(map).unwrap();
        maps.create(&PostParams::default(), &map).await.unwrap();
    }
}

/// An unmarked block with a command would never be tested.
#[test]
fn every_command_of_the_docs_is_marked() {
    for page in fs::read_dir(docs())
        .unwrap()
        .map(|page| page.unwrap().path())
    {
        let text = fs::read_to_string(&page).unwrap_or_default();
        let blocks = text.split("\n```").skip(1).step_by(2);
        for block in blocks.filter_map(|block| block.strip_prefix('\n')) {
            let is_command = ["kubectl ", "helm "].iter().any(|it| block.starts_with(it));
            assert!(!is_command, "{}: {block}", page.display());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_of_the_docs_that_needs_no_node_works() {
    let server = ApiServer::start().await;
    corefiles(&server).await;
    let workdir = Workdir::new();
    let mut folders = vec![
        tool("kubectl").parent().unwrap().to_owned(),
        program("collector").parent().unwrap().to_owned(),
    ];
    folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
    let mut run = 0;
    for (page, blocks) in commands() {
        for block in blocks {
            let mut command = Command::new("bash");
            command
                .args(["-euo", "pipefail", "-c", &block])
                .current_dir(docs().join(".."))
                .env("PATH", std::env::join_paths(&folders).unwrap())
                .env("KUBECONFIG", server.kubeconfig())
                .env("HOME", workdir.path());
            for folder in ["CACHE", "CONFIG", "DATA"] {
                command.env(format!("HELM_{folder}_HOME"), workdir.join("helm"));
            }
            let output = command.output().unwrap();
            let said = [output.stdout, output.stderr].concat();
            assert!(
                output.status.success(),
                "{}:\n{block}\n{}",
                page.display(),
                String::from_utf8_lossy(&said)
            );
            run += 1;
        }
    }
    assert!(run > 5, "{run} commands");
}
