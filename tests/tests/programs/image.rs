//! The content of the image: statically linked programs, and no other files.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;
use tests::{or_skip, skip, soak::is_long, wait::eventually, workdir::Workdir};
use tokio::{net::TcpListener, time::timeout};

/// This machine's architecture, as images call it.
pub(super) const HOST: &str = if cfg!(target_arch = "aarch64") {
    "arm64"
} else {
    "amd64"
};

pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

pub(super) fn run(what: &str, command: &mut Command) -> Output {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {errors}");
    output
}

/// The workspace's libraries that cargo built for the programs, by name, and the folder of their dependencies.
fn libraries() -> Vec<(String, PathBuf)> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([
        "build",
        "--locked",
        "--offline",
        "--workspace",
        "--bins",
        "--message-format=json",
    ]);
    // With cargo's variables for this test, cargo would rebuild the programs, which other tests use at this moment.
    for (variable, _) in env::vars_os() {
        let of_package = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_"];
        let name = variable.to_string_lossy();
        if of_package.iter().any(|prefix| name.starts_with(prefix)) {
            cargo.env_remove(&variable);
        }
    }
    let output = run("cargo build", cargo.current_dir(root()));
    let text = String::from_utf8(output.stdout).unwrap();
    let messages = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let library = |message: Value| {
        let name = message["target"]["name"].as_str()?.to_owned();
        let mut files = message["filenames"]
            .as_array()?
            .iter()
            .filter_map(Value::as_str);
        let file = files.find(|file| file.ends_with(".rlib"))?;
        Some((name, PathBuf::from(file)))
    };
    messages.filter_map(library).collect()
}

/// Links the programs in the folder like those of an image, without compiling the whole workspace again.
fn link(folder: &Path) {
    let libraries = libraries();
    let of = |name: &str| {
        let found = libraries.iter().find(|(library, _)| library == name);
        found
            .unwrap_or_else(|| panic!("there is no {name} in {libraries:?}"))
            .1
            .clone()
    };
    for name in ["collector", "egress", "ovn-writer"] {
        let crate_name = name.replace('-', "_");
        let mut rustc = Command::new("rustc");
        rustc.args(["--edition=2024", "-C", "target-feature=+crt-static"]);
        rustc
            .arg(root().join(name).join("src/main.rs"))
            .arg("--crate-name")
            .arg(&crate_name);
        for library in [crate_name.as_str(), "runtime"] {
            let file = of(library);
            rustc
                .arg("-L")
                .arg(format!("dependency={}", file.parent().unwrap().display()));
            rustc.arg("-L").arg(format!(
                "dependency={}",
                file.with_file_name("deps").display()
            ));
            rustc
                .arg("--extern")
                .arg(format!("{library}={}", file.display()));
        }
        run("rustc", rustc.arg("-o").arg(folder.join(name)));
    }
}

/// A program with this folder as root directory, as an unprivileged user.
fn alone(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("chroot");
    command
        .args(["--userspec=65532:65532"])
        .arg(folder)
        .args(args)
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command
}

/// Copies the programs, and checks how they are linked.
fn copy(programs: &Path, root: &Path) {
    for name in ["collector", "egress", "ovn-writer"] {
        let linked = Command::new("ldd")
            .arg(programs.join(name))
            .output()
            .unwrap();
        let said = [linked.stdout, linked.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(
            said.contains("statically linked") || said.contains("not a dynamic"),
            "{said}"
        );
        fs::copy(programs.join(name), root.join(name)).unwrap();
    }
}

async fn runs_alone(root: &Path) {
    for name in ["collector", "egress", "ovn-writer"] {
        let version = run(name, &mut alone(root, &[&format!("/{name}"), "--version"]));
        let version = String::from_utf8(version.stdout).unwrap();
        assert!(
            version.starts_with(&format!("{name} {}", env!("CARGO_PKG_VERSION"))),
            "{version}"
        );
    }
    // The hosts file names the database: no other part of the C library's resolver exists there.
    fs::create_dir_all(root.join("etc")).unwrap();
    fs::write(root.join("etc/hosts"), "127.0.0.1 northbound.test\n").unwrap();
    fs::create_dir_all(root.join("store")).unwrap();
    for path in [root.to_owned(), root.join("store")] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let database = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let remote = format!(
        "tcp:northbound.test:{}",
        database.local_addr().unwrap().port()
    );
    let args = [
        "/ovn-writer",
        "--store=dir:/store",
        "--admin=127.0.0.1:0",
        "--nb",
        &remote,
    ];
    let mut writer = alone(root, &args).spawn().unwrap();
    let dialled = timeout(tests::wait::PATIENCE, database.accept()).await;
    writer.kill().unwrap();
    writer.wait().unwrap();
    dialled.expect("it finds the database").unwrap();
    // The collector works there.
    let args = [
        "/collector",
        "--store=dir:/store",
        "--listen=unix:///dnstap.sock",
        "--admin=127.0.0.1:0",
        "--resolver=none",
    ];
    let mut collector = alone(root, &args).spawn().unwrap();
    eventually("it listens", async || {
        let exists = root.join("dnstap.sock").exists();
        exists
            .then_some(())
            .ok_or_else(|| "there is no socket".to_owned())
    })
    .await;
    collector.kill().unwrap();
    collector.wait().unwrap();
}

mod soak {
    use super::*;

    /// The short version uses the tests' programs, linked again; scripts/soak uses those of scripts/image.
    #[tokio::test]
    async fn the_programs_of_the_image_need_nothing_beside_them() {
        let (folder, root_folder) = (Workdir::new(), Workdir::new());
        let mut programs = folder.path().to_owned();
        if is_long() {
            let mut image = Command::new(root().join("scripts/image"));
            image.args(["--arch", HOST, "--programs"]).arg(&programs);
            run("scripts/image", &mut image);
            programs.push(HOST);
        } else {
            link(&programs);
        }
        copy(&programs, root_folder.path());
        or_skip!(skip::needs(&[
            "chroot",
            "--userspec=65532:65532",
            "/",
            "true"
        ]));
        runs_alone(root_folder.path()).await;
    }
}

/// Runs the build script of the commit alone.
#[test]
fn the_version_has_the_commit_and_does_without_git() {
    let workdir = Workdir::new();
    let script = workdir.join("build");
    let mut rustc = Command::new("rustc");
    rustc
        .args(["--edition=2024", "--crate-name=build"])
        .arg(root().join("runtime/build.rs"));
    run("rustc", rustc.arg("-o").arg(&script));
    let says = |folder: &Path, profile: &str, told: &str| {
        let mut command = Command::new(&script);
        command
            .current_dir(folder)
            .env("PROFILE", profile)
            .env("SOURCE_COMMIT", told);
        // A parent folder may be a repository.
        command
            .env("CARGO_PKG_VERSION", "1.2.3")
            .env("GIT_CEILING_DIRECTORIES", "/");
        let output = run("the build script", &mut command);
        let text = String::from_utf8(output.stdout).unwrap();
        let mut lines = text.lines();
        let shown =
            lines.find_map(|line| line.strip_prefix("cargo::rustc-env=VERSION_AND_COMMIT="));
        shown.unwrap().to_owned()
    };
    assert_eq!(says(workdir.path(), "release", ""), "1.2.3");
    assert_eq!(
        says(workdir.path(), "debug", "abc-dirty"),
        "1.2.3 (abc-dirty)"
    );
    let repository = workdir.join("repository");
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=x", "-c", "user.email=x@example.com"]);
        run(
            "git",
            command
                .args(["-c", "init.defaultBranch=main", "-C"])
                .arg(&repository)
                .args(args),
        )
    };
    fs::create_dir(&repository).unwrap();
    git(&["init", "--quiet"]);
    git(&["commit", "--quiet", "--allow-empty", "--message=x"]);
    let head = git(&["rev-parse", "--short=12", "HEAD"]);
    let head = String::from_utf8(head.stdout).unwrap();
    assert_eq!(
        says(&repository, "release", ""),
        format!("1.2.3 ({})", head.trim())
    );
    assert_eq!(says(&repository, "debug", ""), "1.2.3");
}
