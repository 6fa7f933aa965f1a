//! Which version this is, for `--version` and the metric `egress_build_info`: that of the workspace, and the commit.
//!
//! The commit is the variable SOURCE_COMMIT, or in an optimised build the commit that git reports. Without git there is
//! none. Other builds leave it out, since every commit would rebuild the whole workspace.

#![allow(
    clippy::print_stdout,
    reason = "this is how a build script speaks to cargo"
)]

use std::{env, process::Command};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=SOURCE_COMMIT");
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let told = env::var("SOURCE_COMMIT").ok();
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = told
        .filter(|commit| !commit.is_empty())
        .or_else(|| is_release.then(commit).flatten());
    let shown = match &commit {
        Some(commit) => format!("{version} ({commit})"),
        None => version,
    };
    println!("cargo::rustc-env=VERSION_AND_COMMIT={shown}");
    let commit = commit.as_deref().unwrap_or("unknown");
    println!("cargo::rustc-env=BUILD_COMMIT={commit}");
}

fn commit() -> Option<String> {
    // git appends to this file at every commit and checkout, in a worktree too.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    println!("cargo::rerun-if-changed={log}");
    git(&["rev-parse", "--short=12", "HEAD"])
}

/// The first line of what git prints, if it succeeds.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let line = text.lines().next().unwrap_or_default();
    (output.status.success() && !line.is_empty()).then(|| line.to_owned())
}
