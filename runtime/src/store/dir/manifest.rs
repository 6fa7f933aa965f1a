//! The objects of a kind in a file.

use std::collections::BTreeMap;

use anyhow::anyhow;
use serde_json::{Value, json};

use super::{
    super::{Kind, ObjectKey, names},
    document::{Document, documents},
    edit::{fill_metadata, set_field},
    file::Content,
};

/// How many faults of a file are kept.
const MAX_FAULTS: usize = 10;

/// The fields that are not checked: the type takes the first two from elsewhere, and only programs write a status.
const UNCHECKED: [&str; 3] = ["apiVersion", "kind", "status"];

/// What a file has of a kind.
pub(super) struct Manifest<K> {
    /// The objects; `None` if one does not decode.
    pub(super) objects: BTreeMap<ObjectKey, Option<K>>,
    /// Whether these are all objects of the file.
    pub(super) is_whole: bool,
    /// The faults, and the fields that have no effect, with their lines.
    pub(super) faults: Vec<String>,
    /// The whole document, also fields that the type does not have, if the file has no other.
    pub(super) document: Option<Value>,
}

impl<K> Default for Manifest<K> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            is_whole: true,
            faults: Vec::new(),
            document: None,
        }
    }
}

impl<K: Kind> Manifest<K> {
    /// A file that cannot be read. `own` is the object whose place it has.
    pub(super) fn unreadable(fault: String, own: Option<ObjectKey>) -> Self {
        Self {
            objects: own.into_iter().map(|own| (own, None)).collect(),
            is_whole: false,
            faults: vec![fault],
            document: None,
        }
    }

    /// Reads a file. `own` is the object whose place it has.
    pub(super) fn parse(content: &Content, own: Option<&ObjectKey>) -> Self {
        let Ok(text) = std::str::from_utf8(&content.bytes) else {
            return Self::unreadable("not UTF-8".to_owned(), own.cloned());
        };
        let mut manifest = Self::default();
        let mut count = 0;
        for document in documents(text) {
            match document.parse() {
                Ok(Value::Null) => {}
                Ok(mut value) if value.get("kind").is_some_and(|it| it == "List") => {
                    count += 2;
                    let items = value.get_mut("items").and_then(Value::as_array_mut);
                    for (index, item) in items.into_iter().flatten().enumerate() {
                        manifest.add(&document.item(index), item, own);
                    }
                }
                Ok(mut value) => {
                    count += 1;
                    manifest.add(&document, &mut value, own);
                    manifest.document = Some(value);
                }
                Err(error) => manifest.fail(None, || document.fault(&error)),
            }
        }
        manifest.document.take_if(|_| count > 1);
        if let Some(own) = own.filter(|own| !manifest.objects.contains_key(own)) {
            manifest.objects.insert(own.clone(), None);
            if manifest.faults.is_empty() {
                manifest.fault(|| "the file is empty".to_owned());
            }
        }
        for (key, object) in &mut manifest.objects {
            if let Some(object) = object {
                fill_metadata(object, key, &content.bytes, content.fingerprint);
            }
        }
        manifest
    }

    /// The object of this key, which the file should have.
    pub(super) fn take(mut self, key: &ObjectKey) -> anyhow::Result<K> {
        let object = self.objects.remove(key).flatten();
        object.ok_or_else(|| anyhow!(self.faults.join("; ")))
    }

    /// Adds an object of a file, if it is of this kind.
    fn add(&mut self, document: &Document<'_>, value: &mut Value, own: Option<&ObjectKey>) {
        let first_line = || document.line_of("");
        let key = match key_of::<K>(value, own) {
            Ok(Some(key)) => key,
            Ok(None) => return,
            Err(fault) => return self.fail(None, || format!("line {}: {fault}", first_line())),
        };
        if self.objects.contains_key(&key) {
            return self.fault(|| format!("line {}: {key} is here twice", first_line()));
        }
        let has_metadata = value.get("metadata").is_some_and(|it| !it.is_null());
        if !has_metadata {
            set_field(value, "", "metadata", Some(json!({})));
        }
        set_field(value, "/metadata", "resourceVersion", None);
        let mut unknown = Vec::new();
        match serde_ignored::deserialize(&*value, |field| unknown.push(field.to_string())) {
            Ok(object) => {
                self.warn(document, &object, &unknown);
                self.objects.insert(key, Some(object));
            }
            Err(error) => self.fail(Some(key), || {
                // JSON has no lines. Without `metadata` the type would miss that first.
                let located = document.fault_of::<K>().filter(|_| has_metadata);
                located.unwrap_or_else(|| format!("line {}: {error}", first_line()))
            }),
        }
    }

    /// Adds the faults of an object that decodes.
    fn warn(&mut self, document: &Document<'_>, object: &K, unknown: &[String]) {
        if let Some((field, reason)) = object.lint() {
            self.fault(|| format!("line {}: {reason}", document.line_of(&field)));
        }
        let is_checked = |field: &&String| !UNCHECKED.iter().any(|it| field.starts_with(it));
        if let Some(field) = unknown.iter().find(is_checked) {
            let field = field.replace(".?", "");
            let line = || document.line_of(&field);
            self.fault(|| format!("line {}: unknown field `{field}` has no effect", line()));
        }
    }

    /// Adds the fault of an object that does not decode. Its key may be unknown.
    fn fail(&mut self, key: Option<ObjectKey>, fault: impl FnOnce() -> String) {
        self.is_whole &= key.is_some();
        self.objects.extend(key.map(|key| (key, None)));
        self.fault(fault);
    }

    fn fault(&mut self, fault: impl FnOnce() -> String) {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(fault());
        }
    }
}

/// The key of an object of this kind; `None` if it is of another kind. `own` is the object whose place the file has.
fn key_of<K: Kind>(value: &Value, own: Option<&ObjectKey>) -> Result<Option<ObjectKey>, String> {
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str);
    let (version, kind) = (K::api_version(&()), K::kind(&()));
    match (text("/apiVersion"), text("/kind")) {
        (Some(found), Some(other)) if found == version && other == kind => {}
        (Some(found), Some(other)) if own.is_none() && !is_of::<K>(found, other) => {
            return Ok(None);
        }
        _ => {
            return Err(format!(
                "`apiVersion` and `kind` are not {version} and {kind}"
            ));
        }
    }
    let namespace = text("/metadata/namespace").or(own.map(|own| &*own.namespace));
    let name = text("/metadata/name").or(own.map(|own| &*own.name));
    let (Some(namespace), Some(name)) = (namespace, name) else {
        let place = format!("<namespace>/{}/<name>.yaml", K::plural(&()));
        return Err(format!(
            "`metadata` has no `namespace` or no `name`; only a file {place} may leave them out"
        ));
    };
    let key = ObjectKey {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    match own {
        Some(own) if *own != key => Err(format!("`metadata` names {key}, and the path {own}")),
        _ => names::check(&key)
            .map(|()| Some(key.clone()))
            .map_err(|fault| format!("{key}: {fault}")),
    }
}

/// Whether a kind is this one, perhaps in another version.
fn is_of<K: Kind>(version: &str, kind: &str) -> bool {
    let group = version.split_once('/').map_or("", |(group, _)| group);
    kind == K::kind(&()) && group == K::group(&())
}

#[cfg(test)]
mod tests;
