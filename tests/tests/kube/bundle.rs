//! `egress bundle` has what a bug report needs, and neither secrets nor clients.

use std::{fs, path::Path, process::Command};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tests::{or_skip, workdir::Workdir};

use crate::installation::{ADDRESS, COREFILE, DNS_NAMESPACE, Installation, NAME};

const SECRET: &str = "s3cr3t-of-the-listener";

/// The files below a folder: their paths in it, and their texts.
fn files(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            found.push((name, fs::read_to_string(path).unwrap()));
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bundle_has_states_and_logs_without_secrets_and_clients() {
    let it = or_skip!(Installation::start().await);
    let maps: Api<ConfigMap> = Api::namespaced(it.server.client().await, DNS_NAMESPACE);
    let extra = format!("full {{\n        extra {SECRET}\n    }}");
    let corefile = COREFILE.replace("full", &extra);
    let patch = Patch::Merge(json!({ "data": { "Corefile": corefile } }));
    maps.patch("coredns", &PatchParams::default(), &patch)
        .await
        .unwrap();

    let folder = Workdir::new();
    let archive = folder.join("bundle.tar").display().to_string();
    let (status, text) = it.egress(&["bundle", &archive]).await;
    assert_eq!(status, Some(0), "{text}");
    let out = folder.join("out");
    fs::create_dir(&out).unwrap();
    let untar = Command::new("tar")
        .args(["-xf", &archive])
        .current_dir(&out)
        .output();
    assert!(untar.as_ref().unwrap().status.success(), "{untar:?}");
    let files = files(&out);
    let text_of = |name: &str| {
        let file = files.iter().find(|(it, _)| it == name);
        let names = files.iter().map(|(name, _)| name).collect::<Vec<_>>();
        &file
            .unwrap_or_else(|| panic!("{name} is not in {names:?}"))
            .1
    };
    let (collector, writer) = (&it.collectors[0].name, &it.writers[0].name);
    for (name, part) in [
        ("version.txt".to_owned(), "egress 0."),
        ("check.txt".to_owned(), "✓ API server"),
        ("cluster/workloads.json".to_owned(), "--store=kube"),
        ("cluster/pods.json".to_owned(), writer),
        (
            "cluster/corefile.txt".to_owned(),
            "dnstap tcp://10.96.0.53:6000 full { [lines] }",
        ),
        (format!("collector/{collector}/names.json"), ADDRESS),
        (format!("collector/{collector}/status.json"), NAME),
        (format!("ovn-writer/{writer}/sets.json"), ADDRESS),
        (
            format!("ovn-writer/{writer}/verify.json"),
            "\"isSame\": true",
        ),
        (format!("logs/{collector}.log"), "[address]"),
        (
            format!("logs/{writer}.log"),
            "the northbound database was read",
        ),
    ] {
        let text = text_of(&name);
        assert!(text.contains(part), "{name} without {part}: {text}");
    }
    assert!(
        !files.iter().any(|(name, _)| name == "missing.txt"),
        "{}",
        text_of("missing.txt")
    );
    // The test asks from the outer end of each network.
    let clients = it
        .networks
        .iter()
        .map(|network| network.outside().to_string());
    for word in clients.chain([SECRET.to_owned()]) {
        let mut having = files.iter().filter(|(_, text)| text.contains(&word));
        assert_eq!(having.next(), None, "{word}");
    }

    // A second one does not replace it.
    let (status, text) = it.egress(&["bundle", &archive]).await;
    assert_eq!(status, Some(1), "{text}");
}
