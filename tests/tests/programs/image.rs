//! The image that scripts/image assembles: in short from files that stand for the programs, in scripts/soak from those that it builds.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;
use tests::{soak::is_long, workdir::Workdir};

/// This machine's architecture, as images call it.
const HOST: &str = if cfg!(target_arch = "aarch64") {
    "arm64"
} else {
    "amd64"
};

const ARCHITECTURES: [&str; 2] = ["amd64", "arm64"];

const PROGRAMS: [&str; 4] = ["collector", "egress", "ovn-writer", "policy-writer"];

/// The largest image, without the list of layers.
const LARGEST: u64 = 40_000_000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn run(what: &str, command: &mut Command) -> Output {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {errors}");
    output
}

fn write_archive(archive: &Path, workdir: &Workdir) {
    let mut command = Command::new(root().join("scripts/image"));
    command.env("SOURCE_COMMIT", "0123456789ab");
    command.env("SOURCE_DATE_EPOCH", "1700000000");
    if !is_long() {
        let given = workdir.join("given");
        for arch in ARCHITECTURES {
            fs::create_dir_all(given.join(arch)).unwrap();
            for name in PROGRAMS {
                fs::write(given.join(arch).join(name), format!("{name} {arch}\n")).unwrap();
            }
        }
        command.arg("--from").arg(given);
    }
    run("scripts/image", command.arg("--output").arg(archive));
}

fn skopeo(arch: &str) -> Command {
    let mut command = Command::new("skopeo");
    command.args(["--insecure-policy", "--override-arch", arch]);
    command
}

/// Copies the layers of an image into a folder, and returns their files.
fn layers(image: &str, arch: &str, folder: &Path) -> Vec<PathBuf> {
    let to = format!("dir:{}", folder.display());
    run(
        "skopeo copy",
        skopeo(arch).args(["copy", "--quiet", image, &to]),
    );
    let manifest = File::open(folder.join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_reader(manifest).unwrap();
    let layers = manifest["layers"].as_array().unwrap().iter();
    let digests = layers.map(|layer| layer["digest"].as_str().unwrap());
    digests
        .map(|digest| folder.join(digest.split_once(':').unwrap().1))
        .collect()
}

fn unpack(layers: &[PathBuf], folder: &Path) {
    fs::create_dir(folder).unwrap();
    for layer in layers {
        let mut tar = Command::new("tar");
        tar.args(["--extract", "--gzip", "--directory"]).arg(folder);
        run("tar", tar.arg("--file").arg(layer));
    }
}

/// The programs of this architecture run, and need nothing beside them.
fn programs_run(folder: &Path) {
    for name in PROGRAMS {
        let program = folder.join("usr/local/bin").join(name);
        let said = run(name, Command::new(&program).arg("--version"));
        let said = String::from_utf8(said.stdout).unwrap();
        assert!(said.contains("0123456789ab"), "{said}");
        let linked = Command::new("ldd").arg(&program).output().unwrap();
        let said = [linked.stdout, linked.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let is_static = ["statically linked", "not a dynamic"];
        assert!(is_static.iter().any(|it| said.contains(it)), "{said}");
    }
}

mod soak {
    use super::*;

    #[test]
    fn image_has_the_programs_and_their_licences_for_both_architectures() {
        let workdir = Workdir::new();
        let archive = workdir.join("image.tar");
        write_archive(&archive, &workdir);
        let archive = format!("oci-archive:{}", archive.display());
        for arch in ARCHITECTURES {
            let inspect = run(
                "skopeo inspect",
                skopeo(arch).args(["inspect", "--config", &archive]),
            );
            let config: Value = serde_json::from_slice(&inspect.stdout).unwrap();
            assert_eq!(config["architecture"], arch);
            assert_eq!(config["config"]["User"], "65532:65532");
            let folder = workdir.join(arch);
            let layers = layers(&archive, arch, &folder);
            let size = layers.iter().map(|it| fs::metadata(it).unwrap().len());
            let size: u64 = size.sum();
            println!("{arch}: {size} bytes");
            assert!(size <= LARGEST, "{arch}: {size} bytes");
            let unpacked = folder.join("unpacked");
            unpack(&layers, &unpacked);
            for name in PROGRAMS {
                assert!(unpacked.join("usr/local/bin").join(name).is_file());
            }
            let documents = unpacked.join("usr/share/doc/egress-by-name");
            let notices = documents.join("third-party-notices.txt");
            let notices = fs::read_to_string(notices).unwrap();
            assert!(notices.contains("\ntokio 1.") && notices.contains("Rich Felker"));
            let sbom = fs::read(documents.join("sbom.cdx.json")).unwrap();
            let sbom: Value = serde_json::from_slice(&sbom).unwrap();
            let components = sbom["components"].as_array().unwrap();
            let has = |name: &str| components.iter().any(|it| it["name"] == name);
            assert!(has("tokio") && !has("rcgen"), "a crate of tests is no part");
            if is_long() && arch == HOST {
                programs_run(&unpacked);
            }
        }
    }
}
