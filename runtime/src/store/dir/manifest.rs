//! From YAML to an object and back.

use rapidhash::v3::rapidhash_v3;
use serde_json::{Map, Value};

use super::{
    super::{Kind, ObjectKey, to_be_made},
    fault::{Fault, MAX_SIZE},
    file::Fingerprint,
};

/// A file that decodes.
#[derive(Debug)]
pub(super) struct Manifest<K> {
    /// The whole document, also fields that the type does not have.
    pub(super) document: Value,
    /// The object, with namespace, name and version filled in.
    pub(super) object: K,
}

/// The version of a file: its content and its identity, so that a replaced file counts as changed.
pub(super) fn version(bytes: &[u8], file: &Fingerprint) -> String {
    format!("{}-{:016x}", file.identity(), rapidhash_v3(bytes))
}

/// Parses the file of `key`.
pub(super) fn parse<K: Kind>(
    bytes: &[u8],
    key: &ObjectKey,
    file: &Fingerprint,
) -> Result<Manifest<K>, Fault> {
    let text = std::str::from_utf8(bytes).map_err(|error| Fault {
        line: line_at(bytes, error.valid_up_to()),
        reason: "not UTF-8".to_owned(),
    })?;
    let mut document: Value = serde_saphyr::from_str_with_options(text, options())?;
    let Value::Object(fields) = &mut document else {
        return Err(Fault::new(match document {
            Value::Null => "the file is empty",
            _ => "not an object: `apiVersion`, `kind`, `metadata` and `spec` are expected",
        }));
    };
    // `metadata` is optional.
    let metadata = fields.remove("metadata").filter(|it| !it.is_null());
    let has_metadata = metadata.is_some();
    let empty = || Value::Object(Map::new());
    fields.insert("metadata".to_owned(), metadata.unwrap_or_else(empty));
    for (field, expected, is_optional) in [
        ("/apiVersion", &*K::api_version(&()), false),
        ("/kind", &*K::kind(&()), false),
        ("/metadata/namespace", key.namespace.as_str(), true),
        ("/metadata/name", key.name.as_str(), true),
    ] {
        expect(&document, field, expected, is_optional)?;
    }
    let mut object =
        K::deserialize(&document).map_err(|error| locate::<K>(text, has_metadata, &error))?;
    complete(&mut object, key, version(bytes, file));
    Ok(Manifest { document, object })
}

/// Fills in the metadata that the path gives.
pub(super) fn complete<K: Kind>(object: &mut K, key: &ObjectKey, version: String) {
    let meta = object.meta_mut();
    meta.namespace = Some(key.namespace.clone());
    meta.name = Some(key.name.clone());
    meta.resource_version = Some(version);
}

/// The document of a new object.
pub(super) fn create<K: Kind>(object: &K, key: &ObjectKey, uid: String) -> Result<Value, Fault> {
    let mut made = to_be_made(object, key);
    made.meta_mut().uid = Some(uid);
    let mut fields = fields_of(&made)?;
    fields.remove("status");
    Ok(Value::Object(fields))
}

/// The stored document with the status of `object`, without the fields that only a server sets.
pub(super) fn with_status<K: Kind>(mut stored: Value, object: &K) -> Result<Value, Fault> {
    let status = fields_of(object)?.remove("status");
    if let Value::Object(fields) = &mut stored {
        match status {
            None | Some(Value::Null) => fields.remove("status"),
            Some(status) => fields.insert("status".to_owned(), status),
        };
        if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
            metadata.remove("resourceVersion");
        }
    }
    Ok(stored)
}

/// The stored document with all else of `object`: its fields but `status`, labels, annotations and owners.
pub(super) fn with_content<K: Kind>(stored: Value, object: &K) -> Result<Value, Fault> {
    let Value::Object(mut old) = stored else {
        return Err(Fault::new("not an object"));
    };
    let mut fields = fields_of(object)?;
    fields.remove("status");
    let told = fields.remove("metadata").unwrap_or_default();
    fields.extend(
        old.remove("status")
            .map(|status| ("status".to_owned(), status)),
    );
    if let Some(Value::Object(mut metadata)) = old.remove("metadata") {
        metadata.remove("resourceVersion");
        for field in ["labels", "annotations", "ownerReferences"] {
            match told.get(field) {
                Some(value) => metadata.insert(field.to_owned(), value.clone()),
                None => metadata.remove(field),
            };
        }
        fields.insert("metadata".to_owned(), Value::Object(metadata));
    }
    Ok(Value::Object(fields))
}

/// The text of a document.
pub(super) fn emit(document: &Value) -> Result<String, Fault> {
    serde_saphyr::to_string(document).map_err(|error| Fault::new(error.to_string()))
}

fn fields_of<K: Kind>(object: &K) -> Result<Map<String, Value>, Fault> {
    match serde_json::to_value(object) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(Fault::new("not an object")),
        Err(error) => Err(Fault::new(error.to_string())),
    }
}

fn expect(document: &Value, field: &str, expected: &str, is_optional: bool) -> Result<(), Fault> {
    let name = field.trim_start_matches('/');
    match document.pointer(field) {
        Some(Value::String(found)) if found == expected => Ok(()),
        None | Some(Value::Null) if is_optional => Ok(()),
        None => Err(Fault::new(format!("`{name}` is missing"))),
        Some(found) => {
            let reason = format!("`{name}` is {found}, not \"{expected}\" as its place says");
            Err(Fault::new(reason))
        }
    }
}

/// Finds the line of a type error, which JSON does not have: parses the text again, into the type.
fn locate<K: Kind>(text: &str, has_metadata: bool, error: &serde_json::Error) -> Fault {
    // An optional part must not be reported as missing. A text in braces, or with `metadata:`, cannot be completed like
    // this.
    let completed = format!("{text}\nmetadata: {{}}\n");
    let text = if has_metadata { text } else { &completed };
    let is_whole = serde_saphyr::from_str_with_options::<Value>(text, options()).is_ok();
    match serde_saphyr::from_str_with_options::<K>(text, options()) {
        Err(located) if is_whole => located.into(),
        _ => Fault::new(error.to_string()),
    }
}

fn line_at(bytes: &[u8], offset: usize) -> Option<u64> {
    let newlines = bytes.get(..offset)?.iter().filter(|b| **b == b'\n').count();
    u64::try_from(newlines).ok().map(|lines| lines + 1)
}

/// YAML 1.2, with room for the largest file. As in Kubernetes, an unquoted number is no string.
fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 4_000_000,
            max_nodes: 2_000_000,
            max_total_scalar_bytes: MAX_SIZE,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 100_000 },
        emit_comments: false,
        strict_booleans: true,
        no_schema: true,
        with_snippet: false,
    }
}

#[cfg(test)]
mod tests;
