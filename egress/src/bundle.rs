//! `egress bundle`: what a bug report needs, in one archive.
//!
//! - `contents`: gathers the files. `corefile`: the Corefile without its secrets.
//! - `redact`: crosses out addresses of clients, and secrets. `archive`: the tar format.

mod archive;
mod contents;
mod corefile;
mod redact;

use std::{
    io::{self, Write},
    path::PathBuf,
};

use anyhow::{Context, bail};
use clap::Args;

use crate::{output, targets::TargetArgs};

/// Writes what a bug report needs into one archive (tar).
///
/// It has the findings of `egress check`, the states and logs of the programs, and their objects in the cluster. Addresses of clients,
/// secrets and values of variables are crossed out. DNS names and namespaces stay: read the files before you publish them.
#[derive(Args, Clone, Debug)]
pub struct BundleArgs {
    /// The file to write, which must not exist yet; `-` is stdout.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    #[command(flatten)]
    pub targets: TargetArgs,
}

/// Writes the archive.
///
/// # Errors
/// The file exists or cannot be written; no cluster is configured. A part that cannot be read is named in the archive instead.
pub(crate) async fn run(args: BundleArgs) -> anyhow::Result<()> {
    let file = args.file.display();
    if args.file.try_exists().with_context(|| file.to_string())? {
        bail!("{file}: the file exists");
    }
    let files = contents::gather(&args.targets).await?;
    let mut out = output::create(&args.file).with_context(|| file.to_string())?;
    let archive = archive::tar(&files)?;
    out.write_all(&archive)
        .and_then(|()| out.flush())
        .with_context(|| file.to_string())?;
    let bytes = archive.len();
    let _closed = writeln!(
        io::stderr(),
        "{} files, {bytes} bytes: read them before you publish them, they have names and namespaces",
        files.len()
    );
    Ok(())
}
