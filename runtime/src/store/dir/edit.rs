//! The documents that programs write.

use rapidhash::v3::rapidhash_v3;
use serde_json::Value;
use uuid::Uuid;

use super::super::{Kind, ObjectKey, to_be_made};

/// Makes a new document of the stored one and an object.
pub(super) type Edit<K> = fn(Value, &K) -> anyhow::Result<Value>;

/// The document of a new object.
pub(super) fn create<K: Kind>(object: &K, key: &ObjectKey) -> anyhow::Result<Value> {
    let mut made = to_be_made(object, key);
    made.meta_mut().uid = Some(Uuid::new_v4().to_string());
    let mut document = serde_json::to_value(&made)?;
    set_field(&mut document, "", "status", None);
    Ok(document)
}

/// The stored document with the status of `object`.
pub(super) fn with_status<K: Kind>(mut stored: Value, object: &K) -> anyhow::Result<Value> {
    let status = take_field(&mut serde_json::to_value(object)?, "/status");
    set_field(&mut stored, "", "status", status);
    Ok(stored)
}

/// The stored document with all else of `object`: its fields but `status`, labels, annotations and owners.
pub(super) fn with_content<K: Kind>(mut stored: Value, object: &K) -> anyhow::Result<Value> {
    let mut document = serde_json::to_value(object)?;
    for field in ["labels", "annotations", "ownerReferences"] {
        let value = take_field(&mut document, &format!("/metadata/{field}"));
        set_field(&mut stored, "/metadata", field, value);
    }
    for field in ["metadata", "status"] {
        let value = take_field(&mut stored, &format!("/{field}"));
        set_field(&mut document, "", field, value);
    }
    Ok(document)
}

fn take_field(document: &mut Value, field: &str) -> Option<Value> {
    document.pointer_mut(field).map(Value::take)
}

/// Sets a field of a part of the document, or removes it.
pub(super) fn set_field(document: &mut Value, part: &str, field: &str, value: Option<Value>) {
    if let Some(Value::Object(fields)) = document.pointer_mut(part) {
        match value.filter(|value| !value.is_null()) {
            Some(value) => fields.insert(field.to_owned(), value),
            None => fields.remove(field),
        };
    }
}

/// Fills in the metadata of an object in a file. The version is of the content and the file, so that a replaced file
/// counts as changed.
pub(super) fn fill_metadata<K: Kind>(object: &mut K, key: &ObjectKey, text: &str, file: u64) {
    let meta = object.meta_mut();
    meta.namespace = Some(key.namespace.clone());
    meta.name = Some(key.name.clone());
    meta.resource_version = Some(format!("{file:x}-{:x}", rapidhash_v3(text.as_bytes())));
}
