//! `egress corefile`: checks or changes the Corefile of a CoreDNS that should stream.
//!
//! - `patch`: inserts or removes the `dnstap` line; all other bytes stay. `hold`: the same for the forwarders.
//! - `render`: generates a Corefile from named servers with zones and upstreams.
//! - `config_map`: the ConfigMap that holds a Corefile. `live`: that of the cluster.
//! - `lex`, [`parse`](parse()): server blocks and directives, with their positions, as CoreDNS reads them.
//! - `lint`: which blocks answer for external names, whether they stream, and what hides names.

pub(crate) mod args;
mod config_map;
mod hold;
mod lex;
mod lint;
mod live;
mod parse;
mod patch;
mod render;

use std::{
    fs,
    io::{self, Read, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use runtime::UsageError;

use self::{
    args::{CorefileAction, CorefileArgs, InputArgs, PatchArgs},
    lint::Finding,
    parse::SyntaxError,
    patch::{add, forward_to_cluster, remove},
    render::Servers,
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
            let input = read(check.file.as_deref())?;
            let (corefile, imports) = open(&input, &check)?;
            let scope = check.scope.scope();
            let lines = check.line.lines();
            let found = findings(&usage(parse(&corefile, &imports))?, &lines, &scope);
            let lines: Vec<String> = found.iter().map(|it| format!("{it}\n")).collect();
            write(&lines.concat())?;
            Ok(!found.iter().any(|finding| finding.is_fault))
        }
        CorefileAction::Render(render) => {
            let input = read(Some(&render.file))?;
            let servers = usage(Servers::read(&input))?;
            let lines = render.line.lines();
            let scope = render.scope.scope();
            write(&usage(servers.render(&lines, &scope, render.port))?)?;
            Ok(true)
        }
    }
}

fn patched(args: &PatchArgs, input: &str) -> anyhow::Result<String> {
    let (corefile, imports) = open(input, &args.input)?;
    let scope = args.input.scope.scope();
    let lines = args.input.line.lines();
    let output = if args.node_local {
        let cluster_dns = args.cluster_dns.as_deref();
        let changed = forward_to_cluster(&corefile, &scope, &imports, cluster_dns);
        let (output, warnings) = usage(changed)?;
        warn(&warnings);
        output
    } else if let Some(forwarders) = &args.hold {
        if forwarders.is_empty() && !args.remove {
            return Err(UsageError("give --hold=ADDRESS:PORT, or --live".to_owned()).into());
        }
        let forwarders = (!args.remove).then_some(&**forwarders);
        let (output, left) = usage(with_hold(&corefile, forwarders, &scope, &imports))?;
        warn(&left);
        output
    } else if args.remove {
        usage(removed(&corefile, &lines, &imports))?
    } else if lines.is_empty() {
        return Err(UsageError("--dnstap is missing".to_owned()).into());
    } else {
        let output = usage(added(&corefile, &lines, &scope, &imports))?;
        warn(&findings(&usage(parse(&output, &imports))?, &lines, &scope));
        output
    };
    if args.input.configmap {
        return Ok(usage(config_map::with_corefile(input, &output))?);
    }
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

/// The Corefile of an input, and the location of its imports.
fn open(input: &str, args: &InputArgs) -> anyhow::Result<(String, Imports)> {
    if args.configmap {
        let (corefile, files) = usage(config_map::read(input))?;
        return Ok((corefile, Imports::Files(files)));
    }
    let folder = args.file.as_deref().map(|file| match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    });
    let imports = folder.map_or(Imports::Unknown, Imports::Folder);
    Ok((input.to_owned(), imports))
}

fn read(file: Option<&Path>) -> anyhow::Result<String> {
    let mut text = String::new();
    match file.filter(|file| *file != Path::new("-")) {
        Some(file) => {
            text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        }
        None => {
            io::stdin()
                .lock()
                .read_to_string(&mut text)
                .context("stdin")?;
        }
    }
    if text.trim().is_empty() {
        bail!("the file is empty: give a Corefile");
    }
    Ok(text)
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
