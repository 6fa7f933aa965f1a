//! scripts/release, in a copy of the sources.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use tests::workdir::Workdir;

use crate::{
    archive::{copy_of_sources, stand_ins},
    image::{root, run},
};

/// In place of `egress`: it makes pages and completions, too.
const EGRESS: &str = "#!/bin/sh
# of ARCH
case $1 in
man) mkdir -p \"$2\" && echo page >\"$2/egress.1\" ;;
completion) echo \"$2\" ;;
esac
";

fn copy(workdir: &Workdir) -> PathBuf {
    let copy = workdir.join("copy");
    copy_of_sources(&copy);
    copy
}

/// The version that the manifest of the workspace has.
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

fn release(sources: &Path) -> Command {
    let mut command = Command::new(sources.join("scripts/release"));
    command.env("SOURCE_DATE_EPOCH", "0");
    command
}

#[test]
fn release_version_is_written_wherever_the_version_stands() {
    let workdir = Workdir::new();
    let sources = copy(&workdir);
    // In place of cargo: it keeps its arguments.
    let cargo = workdir.join("cargo");
    let calls = workdir.join("calls");
    let shim = format!(
        "#!/bin/sh\necho \"$UPDATE_GENERATED $*\" >>{}\n",
        calls.display()
    );
    fs::write(&cargo, shim).unwrap();
    run("chmod", Command::new("chmod").arg("+x").arg(&cargo));
    let changelog = sources.join("CHANGELOG.md");
    let text = fs::read_to_string(&changelog).unwrap();
    let heading = "## [9.8.7] - Unreleased\n\n- **New:** all.\n\n## [";
    fs::write(&changelog, text.replacen("## [", heading, 1)).unwrap();

    let mut path = std::ffi::OsString::from(workdir.path());
    path.push(format!(":{}", std::env::var("PATH").unwrap()));
    let mut command = release(&sources);
    run(
        "scripts/release",
        command.args(["version", "9.8.7"]).env("PATH", path),
    );

    let grep = ["-rnIF", "--exclude-dir=fixtures", "--exclude=*.lock"];
    let old = [
        format!("egress-by-name:{}", version()),
        format!("\"{}\"", version()),
    ];
    for old in old {
        let mut left = Command::new("grep");
        left.args(grep).arg(&old).current_dir(&sources);
        let left = left.args([
            "Cargo.toml",
            "Dockerfile",
            "README.md",
            "docs",
            "deploy/chart",
        ]);
        let left = String::from_utf8(left.output().unwrap().stdout).unwrap();
        assert_eq!(left, "", "{old}");
    }
    let chart = fs::read_to_string(sources.join("deploy/chart/Chart.yaml")).unwrap();
    assert!(
        chart.contains("\nversion: 9.8.7\nappVersion: 9.8.7\n"),
        "{chart}"
    );
    let changelog = fs::read_to_string(&changelog).unwrap();
    assert!(
        changelog.contains("## [9.8.7] - 2"),
        "the heading has no date"
    );
    let calls = fs::read_to_string(calls).unwrap();
    assert!(
        calls.contains("1 test") && calls.contains("update"),
        "{calls}"
    );
}

#[test]
fn release_files_are_image_chart_command_sboms_notes_and_checksums() {
    let workdir = Workdir::new();
    let sources = copy(&workdir);
    let built = workdir.join("built");
    stand_ins(&built);
    for arch in ["amd64", "arm64"] {
        let egress = built.join(arch).join("egress");
        fs::write(&egress, EGRESS.replace("ARCH", arch)).unwrap();
        run("chmod", Command::new("chmod").arg("+x").arg(&egress));
    }
    fs::create_dir(sources.join("target")).unwrap();
    let tools = root().join("target/tools").canonicalize().unwrap();
    std::os::unix::fs::symlink(tools, sources.join("target/tools")).unwrap();
    let files = workdir.join("files");
    let published = [
        ("--image", "registry.test/team/egress-by-name"),
        ("--home", "https://project.test/?a=1&b=2"),
        ("--sources", "https://project.test/source"),
        ("--maintainer", "A. Name <name@project.test>"),
    ];
    for missing in published {
        let mut command = release(&sources);
        command.arg("files").arg(&files).arg("--from").arg(&built);
        for (flag, value) in published.into_iter().filter(|it| *it != missing) {
            command.args([flag, value]);
        }
        let refused = command.output().unwrap();
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(
            !refused.status.success() && said.contains(missing.0),
            "{said}"
        );
    }
    let mut command = release(&sources);
    command.arg("files").arg(&files).arg("--from").arg(&built);
    let flags = published.map(|(flag, value)| [flag, value]);
    run("scripts/release", command.args(flags.as_flattened()));

    let mut check = Command::new("sha256sum");
    run(
        "sha256sum",
        check.args(["--check", "SHA256SUMS"]).current_dir(&files),
    );
    let mut names: Vec<_> = fs::read_dir(&files)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let name = format!("egress-by-name-{}", version());
    let archive = |arch: &str| format!("egress-{}-linux-{arch}.tar.gz", version());
    let wanted = [
        "NOTES.md".to_owned(),
        "SHA256SUMS".to_owned(),
        archive("amd64"),
        archive("arm64"),
        format!("{name}-amd64.cdx.json"),
        format!("{name}-arm64.cdx.json"),
        format!("{name}-image.tar"),
        format!("{name}.tgz"),
    ];
    assert_eq!(names, wanted);
    for arch in ["amd64", "arm64"] {
        has_the_command(&files.join(archive(arch)), arch);
    }
    names_who_publishes_it(&files.join(format!("{name}.tgz")), &workdir);
    let notes = fs::read_to_string(files.join("NOTES.md")).unwrap();
    assert!(
        notes.contains("### Added") && !notes.contains("## ["),
        "{notes}"
    );
    let page = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    for file in [
        "egress-by-name-VERSION-image.tar",
        "egress-by-name-VERSION.tgz",
        "egress-by-name-VERSION-ARCH.cdx.json",
        "egress-VERSION-linux-ARCH.tar.gz",
    ] {
        let file = format!("`{file}`");
        assert!(page.contains(&file), "CONTRIBUTING.md does not list {file}");
    }
}

/// The archive has the program of its architecture, and what makes it a command of a system.
fn has_the_command(archive: &Path, arch: &str) {
    let top = format!("egress-{}-linux-{arch}", version());
    let list = |file: &str| {
        let mut tar = Command::new("tar");
        let unpack = tar.args(["--extract", "--gzip", "--to-stdout", "--file"]);
        let read = unpack.arg(archive).arg(format!("{top}/{file}"));
        String::from_utf8(read.output().unwrap().stdout).unwrap()
    };
    assert_eq!(list("egress"), EGRESS.replace("ARCH", arch));
    for (file, text) in [
        ("man/man1/egress.1", "page"),
        ("completions/egress.bash", "bash"),
        ("completions/egress.fish", "fish"),
        ("completions/_egress", "zsh"),
    ] {
        assert_eq!(list(file), format!("{text}\n"), "{file}");
    }
    assert!(list("LICENSE").contains("Apache License"));
    let mut tar = Command::new("tar");
    let listed = tar
        .args(["--list", "--verbose", "--gzip", "--file"])
        .arg(archive);
    let listed = String::from_utf8(listed.output().unwrap().stdout).unwrap();
    let mut links = listed.lines().filter(|line| line.starts_with('l'));
    let link = format!("{top}/kubectl-egress -> egress");
    assert!(links.any(|line| line.ends_with(&link)), "{listed}");
}

/// The chart of a release has what its flags say, and no stand-in.
fn names_who_publishes_it(chart: &Path, workdir: &Workdir) {
    let mut tar = Command::new("tar");
    let unpack = tar.args(["--extract", "--gzip", "--file"]).arg(chart);
    run("tar", unpack.arg("--directory").arg(workdir.path()));
    let read = |name: &str| {
        let file = workdir.join("egress-by-name").join(name);
        fs::read_to_string(file).unwrap()
    };
    let about: serde_json::Value = serde_saphyr::from_str(&read("Chart.yaml")).unwrap();
    assert_eq!(about["home"], "https://project.test/?a=1&b=2");
    assert_eq!(about["sources"][0], "https://project.test/source");
    let maintainer = serde_json::json!({"name": "A. Name", "email": "name@project.test"});
    assert_eq!(about["maintainers"], serde_json::json!([maintainer]));
    let images = about["annotations"]["artifacthub.io/images"]
        .as_str()
        .unwrap();
    let image = format!("image: registry.test/team/egress-by-name:{}", version());
    assert!(images.contains(&image), "{images}");
    let changes = about["annotations"]["artifacthub.io/changes"]
        .as_str()
        .unwrap();
    let changes: serde_json::Value = serde_saphyr::from_str(changes).unwrap();
    let first = serde_json::json!({"kind": "added", "description": "Collector"});
    assert_eq!(changes[0], first);
    let values: serde_json::Value = serde_saphyr::from_str(&read("values.yaml")).unwrap();
    assert_eq!(
        values["image"]["repository"],
        "registry.test/team/egress-by-name"
    );
    let readme = read("README.md");
    assert!(
        readme.contains("| `\"registry.test/team/egress-by-name\"` |"),
        "{readme}"
    );
    for text in [read("Chart.yaml"), read("values.yaml"), readme] {
        assert!(!text.contains("egress-by-name.example"), "{text}");
    }
}
