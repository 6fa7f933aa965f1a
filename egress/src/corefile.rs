//! `egress corefile`: checks or changes the Corefile of a CoreDNS that should stream.
//!
//! - `patch`: inserts or removes the `dnstap` line; all other bytes stay. `hold`: the same for the forwarders.
//! - `live`: patches the ConfigMap of the cluster.
//! - `lex`, [`parse`](parse()): server blocks and directives, with their positions, as CoreDNS reads them.
//! - `lint`: which blocks answer for external names, whether they stream, and what hides names.

pub(crate) mod args;
mod hold;
mod lex;
mod lint;
mod live;
mod parse;
mod patch;

use std::{
    fs,
    io::{self, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::Context;
use runtime::UsageError;

use self::{
    args::{CorefileAction, CorefileArgs, InputArgs, PatchArgs},
    lint::Finding,
    parse::SyntaxError,
    patch::{add, remove},
};
pub(crate) use self::{
    lint::{Line, Scope, bypasses, findings, upstreams},
    parse::{Corefile, Imports, custom_files, parse},
};

/// The key of a ConfigMap with a Corefile.
pub(crate) const KEY: &str = "Corefile";

/// The ConfigMap whose keys the Corefile imports on k3s, AKS, Gardener and others. They own the Corefile itself.
pub(crate) const CUSTOM: &str = "coredns-custom";

/// Runs `egress corefile`. Returns whether no fault was found.
///
/// # Errors
/// [`UsageError`] for a text that is no Corefile, with the line; failures to read or write.
pub(crate) async fn run(args: CorefileArgs) -> anyhow::Result<bool> {
    match args.action {
        CorefileAction::Patch(patch) if patch.live => live::run(&patch).await,
        CorefileAction::Patch(patch) => {
            let input = read(patch.input.file.as_deref())?;
            let output = patched(&patch, &input)?;
            write(&output)?;
            Ok(true)
        }
        CorefileAction::Check(check) => {
            let corefile = read(check.file.as_deref())?;
            let scope = check.scope.scope();
            let lines = check.line.lines();
            let found = findings(&usage(parse(&corefile, &imports(&check)))?, &lines, &scope);
            let lines: Vec<String> = found.iter().map(|it| format!("{it}\n")).collect();
            write(&lines.concat())?;
            Ok(!found.iter().any(|finding| finding.is_fault))
        }
    }
}

fn patched(args: &PatchArgs, corefile: &str) -> Result<String, UsageError> {
    let imports = imports(&args.input);
    let scope = args.input.scope.scope();
    let lines = args.input.line.lines();
    if let Some(forwarders) = &args.hold {
        if forwarders.is_empty() && !args.remove {
            return Err(UsageError("give --hold=ADDRESS:PORT, or --live".to_owned()));
        }
        let forwarders = (!args.remove).then_some(&**forwarders);
        let (output, left) = usage(with_hold(corefile, forwarders, &scope, &imports))?;
        warn(&left);
        return Ok(output);
    }
    if args.remove {
        return usage(removed(corefile, &lines, &imports));
    }
    if lines.is_empty() {
        return Err(UsageError("--dnstap is missing".to_owned()));
    }
    let output = usage(added(corefile, &lines, &scope, &imports))?;
    warn(&findings(&usage(parse(&output, &imports))?, &lines, &scope));
    Ok(output)
}

fn added(
    text: &str,
    lines: &[Line],
    scope: &Scope,
    imports: &Imports,
) -> Result<String, SyntaxError> {
    // In reverse: each line is inserted in front of the others.
    let mut lines = lines.iter().rev();
    lines.try_fold(text.to_owned(), |text, it| add(&text, it, scope, imports))
}

/// With these forwarders, or without any; and the blocks that are left alone.
fn with_hold(
    text: &str,
    forwarders: Option<&[SocketAddr]>,
    scope: &Scope,
    imports: &Imports,
) -> Result<(String, Vec<Finding>), SyntaxError> {
    match forwarders {
        Some(forwarders) => hold::add(text, forwarders, scope, imports),
        None => Ok((hold::remove(text, imports)?, Vec::new())),
    }
}

/// Without these lines, or without any.
fn removed(text: &str, lines: &[Line], imports: &Imports) -> Result<String, SyntaxError> {
    if lines.is_empty() {
        return remove(text, None, imports);
    }
    let mut lines = lines.iter();
    lines.try_fold(text.to_owned(), |text, it| remove(&text, Some(it), imports))
}

fn warn(findings: &[Finding]) {
    for finding in findings {
        let _closed = writeln!(io::stderr(), "{finding}");
    }
}

/// Where the imports of an input are.
fn imports(args: &InputArgs) -> Imports {
    let folder = args.file.as_deref().map(|file| match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    });
    folder.map_or(Imports::Unknown, Imports::Folder)
}

fn read(file: Option<&Path>) -> Result<String, UsageError> {
    let file = file.filter(|file| *file != Path::new("-"));
    let text = match file {
        Some(file) => fs::read_to_string(file),
        None => io::read_to_string(io::stdin()),
    };
    let place = file.map_or("stdin".into(), Path::to_string_lossy);
    match text {
        Ok(text) if text.trim().is_empty() => {
            Err(UsageError(format!("{place} is empty: give a Corefile")))
        }
        text => usage(text.with_context(|| place.into_owned())),
    }
}

fn write(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .context("cannot write to stdout")
}

fn usage<T, E: std::fmt::Display>(result: Result<T, E>) -> Result<T, UsageError> {
    result.map_err(|error| UsageError(format!("{error:#}")))
}
