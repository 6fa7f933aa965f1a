//! Checks the structure of crates. Code for tests does not count.
//!
//! `structure DIRECTORY...` for the `src` folders of crates. Exits with 1 if there is a circle between sibling modules, or
//! a type that is too large.
#![allow(clippy::print_stdout, reason = "it is what the program is for")]

mod circles;
mod types;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use syn::Attribute;

/// For example `["controller", "writes"]`; empty for the crate itself.
type Module = Vec<String>;

/// A file with code.
struct SourceFile {
    module: Module,
    syntax: syn::File,
}

fn main() -> anyhow::Result<ExitCode> {
    let mut found = false;
    for folder in env::args().skip(1) {
        let files = source_files(Path::new(&folder))?;
        for (parent, circle) in circles::circles(&files) {
            let (parent, circle) = (parent.join("::"), circle.join(", "));
            println!("{folder}: a circle in `{parent}`: {circle}");
            found = true;
        }
        for (name, size) in types::too_large(&files) {
            println!("{folder}: {name} {size}");
            found = true;
        }
    }
    Ok(ExitCode::from(u8::from(found)))
}

fn source_files(folder: &Path) -> anyhow::Result<Vec<SourceFile>> {
    let paths = files(folder)?.into_iter();
    let files = paths.map(|path| {
        let text = fs::read_to_string(&path)?;
        let syntax = syn::parse_file(&text).with_context(|| path.display().to_string())?;
        let module = module_of(folder, &path);
        Ok(SourceFile { module, syntax })
    });
    files.collect()
}

/// All files of code that is neither generated nor for tests.
fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        if name.contains("tests") || ["fuzzing", "generated", "random", "testing"].contains(&&*name)
        {
            continue;
        }
        if path.is_dir() {
            files.extend(self::files(&path)?);
        } else if path.extension().is_some_and(|it| it == "rs") {
            files.push(path);
        }
    }
    Ok(files)
}

fn module_of(folder: &Path, file: &Path) -> Module {
    let path = file.strip_prefix(folder).unwrap_or(file);
    let path = path.with_extension("");
    let names = path.iter().map(|name| name.to_string_lossy().into_owned());
    let mut module: Module = names.collect();
    if let Some("mod" | "lib" | "main") = module.last().map(String::as_str) {
        module.pop();
    }
    module
}

fn are_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let list = attribute.meta.require_list();
        let words = list.map(|list| list.tokens.to_string());
        attribute.path().is_ident("cfg") && words.is_ok_and(|it| it.contains("test"))
    })
}
