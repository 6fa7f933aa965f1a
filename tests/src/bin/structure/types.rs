//! Types with too many fields or methods, or with methods in too many files. Flags and types that are read or written as
//! JSON do not count.

use std::collections::{BTreeMap, BTreeSet};

use syn::{
    Attribute, Fields, ImplItem, Item, ItemImpl, ItemMod, ItemStruct, Type,
    visit::{self, Visit},
};

use crate::{Module, SourceFile, are_for_tests};

const MOST_FIELDS: usize = 15;
const MOST_METHODS: usize = 25;
const MOST_FILES: usize = 3;

/// The derives of types whose fields are given by a format.
const FORMATS: [&str; 5] = ["Args", "Parser", "Serialize", "Deserialize", "JsonSchema"];

/// A type with its module.
type Path = (Module, String);

/// The types that exceed a limit, each with the count that does.
pub(crate) fn too_large(files: &[SourceFile]) -> Vec<(String, String)> {
    let mut found = Found::default();
    for (place, file) in files.iter().enumerate() {
        let mut visitor = Types {
            module: &file.module,
            file: place,
            found: &mut found,
        };
        visitor.visit_file(&file.syntax);
    }
    let mut methods: BTreeMap<&Path, (usize, BTreeSet<usize>)> = BTreeMap::new();
    for ((module, name), file, count) in &found.methods {
        if let Some(path) = found.nearest(module, name) {
            let (all, files) = methods.entry(path).or_default();
            *all += count;
            files.insert(*file);
        }
    }
    let fields = found.fields.iter();
    let fields = fields.map(|(path, count)| (path, *count, "fields", MOST_FIELDS));
    let methods = methods.iter().flat_map(|(path, (count, files))| {
        let files = files.len();
        [
            (*path, *count, "methods", MOST_METHODS),
            (*path, files, "files with methods", MOST_FILES),
        ]
    });
    let all = fields.chain(methods);
    let too_large = all.filter(|(_, count, _, most)| count > most);
    too_large
        .map(|((module, name), count, what, most)| {
            let path = [module.as_slice(), std::slice::from_ref(name)].concat();
            (
                path.join("::"),
                format!("has {count} {what}, at most {most}"),
            )
        })
        .collect()
}

#[derive(Default)]
struct Found {
    /// The number of fields of each struct.
    fields: BTreeMap<Path, usize>,
    /// The number of methods in each block: the module and the type, and the file.
    methods: Vec<(Path, usize, usize)>,
}

impl Found {
    /// The struct of this name that the module most likely means.
    fn nearest(&self, module: &Module, name: &str) -> Option<&Path> {
        let named = self.fields.keys().filter(|(_, it)| it == name);
        named.max_by_key(|(other, _)| module.iter().zip(other).take_while(|(a, b)| a == b).count())
    }
}

struct Types<'a> {
    module: &'a Module,
    file: usize,
    found: &'a mut Found,
}

impl Visit<'_> for Types<'_> {
    fn visit_item(&mut self, item: &Item) {
        match item {
            Item::Mod(ItemMod { attrs, .. }) if are_for_tests(attrs) => {}
            Item::Struct(item) if are_for_tests(&item.attrs) => {}
            Item::Impl(item) if are_for_tests(&item.attrs) => {}
            _ => visit::visit_item(self, item),
        }
    }

    fn visit_item_struct(&mut self, item: &ItemStruct) {
        let fields = match &item.fields {
            Fields::Named(fields) if !has_format(&item.attrs) => fields.named.len(),
            _ => 0,
        };
        let path = (self.module.clone(), item.ident.to_string());
        self.found.fields.insert(path, fields);
    }

    fn visit_item_impl(&mut self, item: &ItemImpl) {
        let (None, Type::Path(of)) = (&item.trait_, &*item.self_ty) else {
            return;
        };
        let methods = item.items.iter().filter(|it| match it {
            ImplItem::Fn(it) => !are_for_tests(&it.attrs),
            _ => false,
        });
        if let Some(name) = of.path.segments.last() {
            let path = (self.module.clone(), name.ident.to_string());
            let found = (path, self.file, methods.count());
            self.found.methods.push(found);
        }
    }
}

fn has_format(attributes: &[Attribute]) -> bool {
    let derives = attributes.iter().filter(|it| it.path().is_ident("derive"));
    let mut words = derives.filter_map(|it| it.meta.require_list().ok());
    words.any(|list| {
        let text = list.tokens.to_string();
        let mut derived = text
            .split(',')
            .map(|it| it.rsplit("::").next().unwrap_or(it));
        derived.any(|it| FORMATS.contains(&it.trim()))
    })
}
