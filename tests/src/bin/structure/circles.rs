//! Circles between sibling modules: `a` uses `b`, and `b` uses `a`, perhaps through others.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::{algo::tarjan_scc, graphmap::DiGraphMap};
use syn::{
    Item, ItemMod, UseTree,
    visit::{self, Visit},
};

use crate::{Module, SourceFile, are_for_tests};

/// The circles among the children of each module.
pub(crate) fn circles(files: &[SourceFile]) -> Vec<(Module, Vec<String>)> {
    let modules: BTreeSet<Module> = files.iter().map(|file| file.module.clone()).collect();
    let mut uses: BTreeMap<Module, BTreeSet<(String, String)>> = BTreeMap::new();
    for file in files {
        let module = &file.module;
        let mut paths = Paths {
            module: module.clone(),
            ..Paths::default()
        };
        paths.visit_file(&file.syntax);
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
    circles.collect()
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
