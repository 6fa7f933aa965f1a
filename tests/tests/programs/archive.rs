//! The image that scripts/image assembles: in short from programs that are given, in scripts/soak from those that it builds.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::Value;
use tests::{or_skip, programs::tool, skip, soak::is_long, workdir::Workdir};

use crate::image::{HOST, root, run};

const ARCHITECTURES: [&str; 2] = ["amd64", "arm64"];

/// Another user of this machine, who may read the same files.
const OTHER_USER: [&str; 4] = ["unshare", "--user", "--map-user=1234", "--map-group=1234"];

const PROGRAMS: [&str; 4] = ["collector", "egress", "ovn-writer", "policy-writer"];

/// What stands for the programs in the short version.
pub(super) fn stand_ins(folder: &Path) {
    for arch in ARCHITECTURES {
        fs::create_dir_all(folder.join(arch)).unwrap();
        for name in PROGRAMS {
            fs::write(folder.join(arch).join(name), format!("{name} {arch}\n")).unwrap();
        }
    }
}

/// scripts/image of a copy of the sources.
pub(super) fn script(sources: &Path, workdir: &Workdir, prefix: &[&str]) -> Command {
    let script = sources.join("scripts/image");
    let mut command = match prefix {
        [] => Command::new(script),
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(script);
            command
        }
    };
    // A copy of the sources has no folder .git.
    command.env("SOURCE_COMMIT", "0123456789ab");
    command.env("SOURCE_DATE_EPOCH", "1700000000");
    if !is_long() {
        let given = workdir.join("given");
        stand_ins(&given);
        command.arg("--from").arg(given);
    }
    command
}

/// The sources in another folder.
pub(super) fn copy_of_sources(to: &Path) {
    fs::create_dir(to).unwrap();
    let copy = "git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents --target-directory \"$0\"";
    let mut command = Command::new("sh");
    command.args(["-c", copy]).arg(to).current_dir(root());
    run("cp", &mut command);
}

pub(super) fn json(what: &str, command: &mut Command) -> Value {
    serde_json::from_slice(&run(what, command).stdout).unwrap()
}

fn skopeo(args: &[&str]) -> Value {
    let mut command = Command::new("skopeo");
    json("skopeo", command.arg("--insecure-policy").args(args))
}

/// A registry of this machine; it ends with the value.
struct Registry {
    child: Child,
    name: String,
}

impl Registry {
    fn start() -> Self {
        let mut command = Command::new(tool("registry"));
        command.args(["-port", "0"]).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        log.read_line(&mut line).unwrap();
        let (_, port) = line.trim().rsplit_once(' ').unwrap();
        let name = format!("localhost:{port}/team/egress-by-name:1");
        // It ends if it cannot write.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Self { child, name }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

/// The files of an image: the type, the mode and the size of each, by `skopeo copy` and `tar`.
fn files(image: &str, arch: &str, folder: &Path) -> Vec<String> {
    let mut copy = Command::new("skopeo");
    copy.args([
        "--insecure-policy",
        "--override-arch",
        arch,
        "copy",
        "--quiet",
        image,
    ]);
    run("skopeo copy", copy.arg(format!("dir:{}", folder.display())));
    let manifest: Value =
        serde_json::from_reader(File::open(folder.join("manifest.json")).unwrap()).unwrap();
    let layers = manifest["layers"].as_array().unwrap();
    let mut lines = Vec::new();
    for layer in layers {
        let (_, digest) = layer["digest"].as_str().unwrap().split_once(':').unwrap();
        let mut tar = Command::new("tar");
        tar.args([
            "--list",
            "--verbose",
            "--numeric-owner",
            "--utc",
            "--full-time",
            "--gzip",
        ]);
        let listed = run("tar", tar.arg("--file").arg(folder.join(digest)));
        let text = String::from_utf8(listed.stdout).unwrap();
        lines.extend(
            text.lines()
                .filter(|line| !line.ends_with('/'))
                .map(str::to_owned),
        );
    }
    lines
}

/// The name and the mode of a file that tar listed.
fn name_and_mode(line: &str) -> (String, String) {
    let mut words = line.split_whitespace();
    let mode = words.next().unwrap().to_owned();
    (
        words
            .next_back()
            .unwrap()
            .trim_start_matches("./")
            .to_owned(),
        mode,
    )
}

/// What the image has beside its files.
pub(super) fn configuration(image: &str, arch: &str) -> Value {
    skopeo(&["inspect", "--override-arch", arch, "--config", image])["config"].clone()
}

fn has_all_files(lines: &[String]) {
    let found: Vec<_> = lines.iter().map(|line| name_and_mode(line)).collect();
    let documents = "usr/share/doc/egress-by-name";
    let expected = [
        ("LICENSE".to_owned(), "-rw-r--r--"),
        ("usr/local/bin/collector".to_owned(), "-rwxr-xr-x"),
        ("usr/local/bin/egress".to_owned(), "-rwxr-xr-x"),
        ("usr/local/bin/ovn-writer".to_owned(), "-rwxr-xr-x"),
        ("usr/local/bin/policy-writer".to_owned(), "-rwxr-xr-x"),
        (
            format!("{documents}/rust-standard-library.html"),
            "-rw-r--r--",
        ),
        (format!("{documents}/sbom.cdx.json"), "-rw-r--r--"),
        (format!("{documents}/third-party-notices.txt"), "-rw-r--r--"),
    ];
    let expected = expected.map(|(name, mode)| (name, mode.to_owned()));
    assert_eq!(found, expected);
    for line in lines {
        assert!(
            line.contains(" 0/0 ") && line.contains("2023-11-14"),
            "{line}"
        );
    }
}

/// The Dockerfile gives the same image if its first stage gives the same files. No base image can be pulled for that stage here: its
/// files are those of scripts/image.
fn the_dockerfile_gives_the_same(archive: &str, workdir: &Workdir) {
    let stage = workdir.join("stage");
    let mut image = script(&root(), workdir, &[]);
    run("scripts/image", image.arg("--root").arg(stage.join("out")));
    let storage = ["--root", "--runroot"]
        .map(|flag| [flag.to_owned(), workdir.join(flag).display().to_string()]);
    let buildah = |args: &[&str]| {
        let mut command = Command::new("buildah");
        command
            .args(storage.as_flattened())
            .args(args)
            .current_dir(root());
        run(
            "buildah",
            command
                .env("STORAGE_DRIVER", "vfs")
                .env("BUILDAH_ISOLATION", "chroot"),
        );
    };
    let stage = format!("build={}", stage.display());
    buildah(&[
        "build",
        "--build-context",
        &stage,
        "--build-arg=SOURCE_COMMIT=0123456789ab",
        "--identity-label=false",
        "--tag=egress-by-name",
        "--file=Dockerfile",
        ".",
    ]);
    let built = format!("dir:{}", workdir.join("built").display());
    buildah(&["push", "egress-by-name", &built]);
    let (ours, theirs) = (configuration(archive, HOST), configuration(&built, HOST));
    assert_eq!(ours, theirs);
    let listed = |image: &str, name: &str| -> Vec<_> {
        let lines = files(image, HOST, &workdir.join(name));
        lines.iter().map(|line| name_and_mode(line)).collect()
    };
    assert_eq!(listed(archive, "ours"), listed(&built, "theirs"));
}

/// The list of crates, and their licences' texts.
fn names_what_it_is_made_of(folder: &Path) {
    let sbom = fs::read(folder.join("sbom.cdx.json")).unwrap();
    let sbom: Value = serde_json::from_slice(&sbom).unwrap();
    assert_eq!(sbom["bomFormat"], "CycloneDX");
    let components = sbom["components"].as_array().unwrap();
    let named = |name: &str| {
        let found = components.iter().find(|it| it["name"] == name);
        found.unwrap_or_else(|| panic!("{name} is missing")).clone()
    };
    assert_eq!(named("tokio")["licenses"][0]["expression"], "MIT");
    assert!(named("ring")["hashes"][0]["content"].is_string());
    for of_tests_alone in ["proptest", "rcgen", "syn"] {
        assert!(
            components.iter().all(|it| it["name"] != of_tests_alone),
            "{of_tests_alone}"
        );
    }
    let notices = fs::read_to_string(folder.join("third-party-notices.txt")).unwrap();
    assert!(notices.contains("\ntokio 1.") && notices.contains("Rich Felker"));
}

/// The programs of each architecture run, the foreign ones by qemu.
fn programs_run(layers: &Path, arch: &str) {
    let folder = layers.join("unpacked");
    fs::create_dir(&folder).unwrap();
    for layer in fs::read_dir(layers)
        .unwrap()
        .map(|file| file.unwrap().path())
    {
        // The others are JSON.
        let mut tar = Command::new("tar");
        tar.args(["--extract", "--gzip", "--directory"])
            .arg(&folder);
        let _unpacked = tar.arg("--file").arg(layer).output().unwrap();
    }
    for name in PROGRAMS {
        let program = folder.join("usr/local/bin").join(name);
        let mut command = match arch {
            HOST => Command::new(&program),
            "arm64" => Command::new("qemu-aarch64-static"),
            _ => Command::new("qemu-x86_64-static"),
        };
        if arch != HOST {
            command.arg(&program);
        }
        let said = run(name, command.arg("--version"));
        let said = String::from_utf8(said.stdout).unwrap();
        assert!(said.contains("0123456789ab"), "{arch}: {said}");
    }
}

mod soak {
    use super::*;

    #[test]
    fn the_image_is_the_same_wherever_and_by_any_user_it_is_built() {
        let workdir = Workdir::new();
        or_skip!(skip::needs(&[&OTHER_USER[..], &["true"]].concat()));
        let archives: [PathBuf; 2] = ["first.tar", "second.tar"].map(|name| workdir.join(name));
        let mut first = script(&root(), &workdir, &[]);
        run("scripts/image", first.arg("--output").arg(&archives[0]));
        let copy = workdir.join("copy");
        copy_of_sources(&copy);
        let mut second = script(&copy, &workdir, &OTHER_USER);
        if is_long() {
            let home = workdir.join("cargo");
            run(
                "cp",
                Command::new("cp").arg("-aT").arg(cargo_home()).arg(&home),
            );
            second
                .env("CARGO_HOME", home)
                .env("PATH", std::env::var("PATH").unwrap());
        }
        run("scripts/image", second.arg("--output").arg(&archives[1]));
        run("cmp", Command::new("cmp").args(&archives));

        let archive = format!("oci-archive:{}", archives[0].display());
        for arch in ARCHITECTURES {
            let layers = workdir.join(arch);
            let config = configuration(&archive, arch);
            assert_eq!(config["User"], "65532:65532");
            assert_eq!(
                config["Labels"]["org.opencontainers.image.licenses"],
                "Apache-2.0"
            );
            has_all_files(&files(&archive, arch, &layers));
            if is_long() {
                programs_run(&layers, arch);
                let size: u64 = fs::read_dir(&layers)
                    .unwrap()
                    .filter_map(|file| file.unwrap().metadata().ok())
                    .filter(|it| it.is_file())
                    .map(|it| it.len())
                    .sum();
                println!("{arch}: {size} bytes");
                assert!(size <= 40_000_000, "{arch}: {size} bytes");
            }
        }
    }
}

fn cargo_home() -> PathBuf {
    let given = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    given.unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cargo"))
}

#[test]
fn a_registry_gets_both_architectures() {
    let (workdir, registry) = (Workdir::new(), Registry::start());
    let mut image = script(&root(), &workdir, &[]);
    run("scripts/image", image.args(["--push", &registry.name]));
    let pushed = format!("docker://{}", registry.name);
    let index = skopeo(&["inspect", "--tls-verify=false", "--raw", &pushed]);
    let found = index["manifests"].as_array().unwrap();
    let found: Vec<_> = found
        .iter()
        .map(|it| &it["platform"]["architecture"])
        .collect();
    assert_eq!(found, ARCHITECTURES);
    for arch in ARCHITECTURES {
        let read = skopeo(&[
            "inspect",
            "--tls-verify=false",
            "--override-arch",
            arch,
            &pushed,
        ]);
        assert_eq!(read["Architecture"], arch);
    }
}

#[test]
fn the_image_says_what_it_is_made_of_and_the_dockerfile_gives_the_same() {
    let workdir = Workdir::new();
    let archive = workdir.join("image.tar");
    let mut image = script(&root(), &workdir, &[]);
    run("scripts/image", image.arg("--output").arg(&archive));
    the_dockerfile_gives_the_same(&format!("oci-archive:{}", archive.display()), &workdir);
    names_what_it_is_made_of(&workdir.join("stage/out/usr/share/doc/egress-by-name"));
}
