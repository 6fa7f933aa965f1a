//! `scripts/image --load`, and the archive in the programs that load it: podman, and the containerd of kind, kubeadm, RKE2 and k3s.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::json;
use tests::{or_skip, process::Process, skip, wait::eventually, workdir::Workdir};

use crate::{
    archive::{configuration, json, script},
    image::{HOST, root, run},
};

/// The name that the chart's pods ask for.
fn tag() -> String {
    format!("egress-by-name:{}", env!("CARGO_PKG_VERSION"))
}

/// Runs `scripts/image --load NAME` with a program in place of NAME. It keeps the archive after these words.
fn given_to(name: &str, words: &str, workdir: &Workdir) -> PathBuf {
    let (kept, shim) = (workdir.join(format!("{name}.tar")), workdir.join(name));
    let text = format!(
        "#!/bin/sh\n[ \"$KIND_CLUSTER_NAME $1 $2\" = \"ovn {words}\" ] && cp \"$3\" {}\n",
        kept.display()
    );
    fs::write(&shim, text).unwrap();
    run("chmod", Command::new("chmod").arg("+x").arg(&shim));
    let mut path = std::ffi::OsString::from(workdir.path());
    path.push(format!(":{}", std::env::var("PATH").unwrap()));
    let mut image = script(&root(), workdir, &[]);
    let load = image.args(["--load", name]).env("PATH", path);
    // kind reads the cluster's name there.
    run("scripts/image", load.env("KIND_CLUSTER_NAME", "ovn"));
    kept
}

#[test]
fn each_loader_is_given_an_archive_with_the_names_that_it_reads() {
    for (name, words) in [
        ("docker", "load --input"),
        ("podman", "load --input"),
        ("kind", "load image-archive"),
    ] {
        let workdir = Workdir::new();
        let file = given_to(name, words, &workdir);
        let read = |name: &str| {
            let mut tar = Command::new("tar");
            let extract = tar.args(["--extract", "--to-stdout", "--file"]);
            json("tar", extract.arg(&file).arg(name))
        };
        assert_eq!(read("manifest.json")[0]["RepoTags"], json!([tag()]));
        let annotations = &read("index.json")["manifests"][0]["annotations"];
        let name = format!("docker.io/library/{}", tag());
        assert_eq!(annotations["io.containerd.image.name"], name);
        let loaded = format!("docker-archive:{}", file.display());
        assert_eq!(configuration(&loaded, HOST)["User"], "65532:65532");
    }
}

#[test]
fn podman_has_the_image_after_the_script_loads_it() {
    let workdir = Workdir::new();
    let [storage, images, state] = ["storage.conf", "images", "state"].map(|it| workdir.join(it));
    let text =
        format!("[storage]\ndriver = \"vfs\"\ngraphroot = {images:?}\nrunroot = {state:?}\n");
    fs::write(&storage, text).unwrap();
    let mut image = script(&root(), &workdir, &[]);
    let load = image.args(["--load", "podman"]);
    run(
        "scripts/image",
        load.env("CONTAINERS_STORAGE_CONF", &storage),
    );
    let mut podman = Command::new("podman");
    podman.args(["image", "inspect", &tag()]);
    let found = json("podman", podman.env("CONTAINERS_STORAGE_CONF", &storage));
    assert_eq!(found[0]["Config"]["User"], "65532:65532");
    assert_eq!(found[0]["Architecture"], HOST);
}

/// A containerd of this test alone, without the parts for pods.
async fn containerd(folder: &Path) -> (Process, PathBuf) {
    let [config, socket] = ["containerd.toml", "containerd.sock"].map(|it| folder.join(it));
    let [root, state] = ["root", "state"].map(|it| folder.join(it));
    let text = format!(
        "version = 2\nroot = {root:?}\nstate = {state:?}\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n\
         [grpc]\naddress = {socket:?}\n"
    );
    fs::write(&config, text).unwrap();
    let args = [Path::new("--config"), &config];
    let process = Process::start(folder, "containerd", Path::new("containerd"), args, &[]);
    eventually("containerd answers", async || {
        let version = ctr(&socket, &["version"]).output().unwrap();
        let said = String::from_utf8_lossy(&version.stderr).into_owned();
        version.status.success().then_some(()).ok_or(said)
    })
    .await;
    (process, socket)
}

fn ctr(socket: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("ctr");
    command.arg("--address").arg(socket).args(args);
    command
}

#[tokio::test]
async fn the_containerd_of_a_node_imports_the_archives() {
    or_skip!(skip::needs(&["unshare", "--mount", "true"]));
    let workdir = Workdir::new();
    let (mut process, socket) = containerd(workdir.path()).await;
    let of_kind = given_to("kind", "load image-archive", &workdir);
    let both = workdir.join("image.tar");
    let mut image = script(&root(), &workdir, &[]);
    run("scripts/image", image.arg("--output").arg(&both));
    // As `kind load` calls it in each node, and as docs/install.md says it for kubeadm.
    for (namespace, more, archive) in [
        ("kind", &["--all-platforms", "--digests"][..], of_kind),
        ("k8s.io", &[], both),
    ] {
        let namespace = ["--namespace", namespace];
        let import = ["images", "import", "--snapshotter=native"];
        let args = [&namespace[..], &import, more].concat();
        run("ctr", ctr(&socket, &args).arg(&archive));
        let list = [&namespace[..], &["images", "list", "--quiet"]].concat();
        let listed = run("ctr", &mut ctr(&socket, &list));
        let listed = String::from_utf8(listed.stdout).unwrap();
        let name = format!("docker.io/library/{}", tag());
        assert!(listed.lines().any(|line| line == name), "{listed}");
    }
    process.terminate().await;
}
