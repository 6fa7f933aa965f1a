//! The objects of a kind in a file.

use std::collections::BTreeMap;

use anyhow::anyhow;
use serde_json::{Value, json};

use super::{
    super::{
        Kind, ObjectKey,
        decode::{Undecoded, decode},
        names,
    },
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
        let mut manifest = Self {
            objects: BTreeMap::new(),
            is_whole: true,
            faults: Vec::new(),
            document: None,
        };
        if own.is_none() && !content.text.contains(&*K::kind(&())) {
            return manifest;
        }
        let documents = documents(&content.text);
        for document in &documents {
            match document.parse() {
                Ok(Value::Null) => {}
                Ok(mut value) if value.get("kind").is_some_and(|it| it == "List") => {
                    let items = value.get_mut("items").and_then(Value::as_array_mut);
                    for (index, item) in items.into_iter().flatten().enumerate() {
                        manifest.add(document, &format!("items.{index}."), item, own);
                    }
                }
                Ok(mut value) => {
                    manifest.add(document, "", &mut value, own);
                    manifest.document = Some(value).filter(|_| documents.len() == 1);
                }
                Err(error) => manifest.fail(None, || document.fault(&error)),
            }
        }
        if let Some(own) = own.filter(|own| !manifest.objects.contains_key(own)) {
            manifest.objects.insert(own.clone(), None);
            if manifest.faults.is_empty() {
                manifest.fault(|| "the file is empty".to_owned());
            }
        }
        for (key, object) in &mut manifest.objects {
            if let Some(object) = object {
                fill_metadata(object, key, &content.text, content.fingerprint);
            }
        }
        manifest
    }

    /// The object of this key, which the file should have.
    pub(super) fn take(mut self, key: &ObjectKey) -> anyhow::Result<K> {
        let object = self.objects.remove(key).flatten();
        object.ok_or_else(|| anyhow!(self.faults.join("; ")))
    }

    /// Adds an object of a file, if it is of this kind. `part` is the part of the document that has it, such as `items.0.`.
    fn add(
        &mut self,
        document: &Document<'_>,
        part: &str,
        value: &mut Value,
        own: Option<&ObjectKey>,
    ) {
        let line_of = |field: &str| document.line_of(&format!("{part}{field}"));
        let key = match key_of::<K>(value, own) {
            Ok(Some(key)) => key,
            Ok(None) => return,
            Err(fault) => return self.fail(None, || format!("line {}: {fault}", line_of(""))),
        };
        if self.objects.contains_key(&key) {
            return self.fault(|| format!("line {}: {key} is here twice", line_of("")));
        }
        if value.get("metadata").is_none_or(Value::is_null) {
            set_field(value, "", "metadata", Some(json!({})));
        }
        set_field(value, "/metadata", "resourceVersion", None);
        let mut unknown = Vec::new();
        let object: K = match decode(value, &mut |field| unknown.push(field.to_string())) {
            Ok(object) => object,
            Err(Undecoded { field, error }) => {
                let line = line_of(&field.replace('[', ".").replace(']', ""));
                return self.fail(Some(key), || format!("line {line}: `{field}`: {error}"));
            }
        };
        if let Some((field, reason)) = object.lint() {
            self.fault(|| format!("line {}: {reason}", line_of(&field)));
        }
        let is_checked = |field: &&String| !UNCHECKED.iter().any(|it| field.starts_with(it));
        if let Some(field) = unknown.iter().find(is_checked) {
            let field = field.replace(".?", "");
            let line = || line_of(&field);
            self.fault(|| format!("line {}: unknown field `{field}` has no effect", line()));
        }
        self.objects.insert(key, Some(object));
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
    let (version, kind) = (text("/apiVersion"), text("/kind").unwrap_or_default());
    let (own_version, own_kind) = (K::api_version(&()), K::kind(&()));
    if version != Some(&*own_version) || kind != own_kind {
        // It may be the kind in another version.
        let group = version.and_then(|version| version.split('/').next());
        if own.is_none() && (kind != own_kind || group != Some(&*K::group(&()))) {
            return Ok(None);
        }
        let fault = format!("`apiVersion` and `kind` are not {own_version} and {own_kind}");
        return Err(fault);
    }
    let part = |field: &str, own: Option<&String>| {
        let found = text(field).or(own.map(String::as_str));
        found.unwrap_or_default().to_owned()
    };
    let key = ObjectKey {
        namespace: part("/metadata/namespace", own.map(|it| &it.namespace)),
        name: part("/metadata/name", own.map(|it| &it.name)),
    };
    match own {
        Some(own) if *own != key => Err(format!("`metadata` names {key}, and the path {own}")),
        _ => match names::check(&key) {
            Ok(()) => Ok(Some(key)),
            Err(fault) => Err(format!("`metadata` does not name an object: {fault}")),
        },
    }
}

#[cfg(test)]
mod tests;
