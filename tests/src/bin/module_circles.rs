//! Finds circles between sibling modules: `a` uses `b`, and `b` uses `a`, perhaps through others. Code for tests does
//! not count.
//!
//! `module_circles DIRECTORY...` for the `src` folders of crates. Exits with 1 if there is a circle.
#![allow(clippy::print_stdout, reason = "it is what the program is for")]

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use petgraph::{algo::tarjan_scc, graphmap::DiGraphMap};
use syn::{
    Attribute, Item, ItemMod, UseTree,
    visit::{self, Visit},
};

/// For example `["controller", "writes"]`; empty for the crate itself.
type Module = Vec<String>;

fn main() -> anyhow::Result<ExitCode> {
    let mut found = false;
    for folder in env::args().skip(1) {
        for (parent, circle) in circles(Path::new(&folder))? {
            println!(
                "{folder}: in `{}`: {}",
                parent.join("::"),
                circle.join(", ")
            );
            found = true;
        }
    }
    Ok(ExitCode::from(u8::from(found)))
}

/// The circles among the children of each module.
fn circles(folder: &Path) -> anyhow::Result<Vec<(Module, Vec<String>)>> {
    let files = files(folder)?;
    let modules: BTreeSet<Module> = files.iter().map(|file| module_of(folder, file)).collect();
    let mut uses: BTreeMap<Module, BTreeSet<(String, String)>> = BTreeMap::new();
    for file in &files {
        let module = module_of(folder, file);
        let text = fs::read_to_string(file)?;
        let mut paths = Paths {
            module: module.clone(),
            ..Paths::default()
        };
        paths.visit_file(&syn::parse_file(&text)?);
        for mut used in paths.used {
            while !modules.contains(&used) {
                used.pop();
            }
            let same = module.iter().zip(&used).take_while(|(a, b)| a == b).count();
            if let (Some(from), Some(to)) = (module.get(same), used.get(same)) {
                let parent = module.iter().take(same).cloned().collect();
                let siblings = (from.clone(), to.clone());
                uses.entry(parent).or_default().insert(siblings);
            }
        }
    }
    let circles = uses.iter().flat_map(|(parent, uses)| {
        let edges = uses.iter().map(|(from, to)| (from.as_str(), to.as_str()));
        let graph = DiGraphMap::<&str, ()>::from_edges(edges);
        let circles = tarjan_scc(&graph).into_iter().filter(|it| it.len() > 1);
        let owned = |circle: Vec<&str>| circle.into_iter().map(str::to_owned).collect();
        circles
            .map(|circle| (parent.clone(), owned(circle)))
            .collect::<Vec<_>>()
    });
    Ok(circles.collect())
}

/// All files of code that is not for tests.
fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        if name.contains("tests") || ["fuzzing", "random", "testing"].contains(&&*name) {
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

/// The paths in a file that begin with `crate`, `self` or `super`.
#[derive(Default)]
struct Paths {
    module: Module,
    used: Vec<Module>,
}

impl Paths {
    fn add(&mut self, path: &[String]) {
        let mut used = match path.first().map(String::as_str) {
            Some("crate") => Module::new(),
            Some("self" | "super") => self.module.clone(),
            _ => return,
        };
        for name in path {
            match name.as_str() {
                "crate" | "self" => {}
                "super" => drop(used.pop()),
                name => used.push(name.to_owned()),
            }
        }
        self.used.push(used);
    }

    fn add_tree(&mut self, tree: &UseTree, before: &[String]) {
        let with = |name: String| [before, &[name]].concat();
        match tree {
            UseTree::Path(path) => self.add_tree(&path.tree, &with(path.ident.to_string())),
            UseTree::Name(name) => self.add(&with(name.ident.to_string())),
            UseTree::Rename(name) => self.add(&with(name.ident.to_string())),
            UseTree::Glob(_) => self.add(before),
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.add_tree(tree, before);
                }
            }
        }
    }
}

fn are_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let list = attribute.meta.require_list();
        let words = list.map(|list| list.tokens.to_string());
        attribute.path().is_ident("cfg") && words.is_ok_and(|it| it.contains("test"))
    })
}

impl Visit<'_> for Paths {
    fn visit_item(&mut self, item: &Item) {
        match item {
            Item::Mod(ItemMod { attrs, .. }) if are_for_tests(attrs) => {}
            Item::Use(item) if are_for_tests(&item.attrs) => {}
            Item::Use(item) => self.add_tree(&item.tree, &[]),
            _ => visit::visit_item(self, item),
        }
    }

    fn visit_path(&mut self, path: &syn::Path) {
        let names = path.segments.iter();
        let names: Vec<String> = names.map(|it| it.ident.to_string()).collect();
        self.add(&names);
        visit::visit_path(self, path);
    }
}
