//! From YAML to an object and back.

use std::collections::BTreeMap;

use anyhow::{Context, anyhow, ensure};
use proto::api::EgressFirewallDestination;
use rapidhash::v3::rapidhash_v3;
use serde::Deserialize;
use serde_json::{Value, json};
use serde_saphyr::Spanned;
use uuid::Uuid;

use super::{
    super::{Kind, ObjectKey, to_be_made},
    file::{Content, MAX_SIZE},
};

/// A file that decodes.
pub(super) struct Manifest<K> {
    pub(super) content: Content,
    /// The whole document, also fields that the type does not have.
    pub(super) document: Value,
    /// The object, with namespace, name and version filled in.
    pub(super) object: K,
    /// A part of the document that has no effect.
    pub(super) warning: Option<String>,
}

/// Makes a new document of the stored one and an object.
pub(super) type Change<K> = fn(Value, &K) -> anyhow::Result<Value>;

/// Parses the file of `key`.
pub(super) fn parse<K: Kind>(content: Content, key: &ObjectKey) -> anyhow::Result<Manifest<K>> {
    let text = std::str::from_utf8(&content.bytes).context("not UTF-8")?;
    let yaml = serde_saphyr::from_str_with_options(text, options());
    let mut document: Value = yaml.map_err(yaml_error)?;
    ensure!(!document.is_null(), "the file is empty");
    let has_metadata = document.get("metadata").is_some_and(|it| !it.is_null());
    if !has_metadata {
        set_field(&mut document, "", "metadata", Some(json!({})));
    }
    for (field, expected, is_optional) in [
        ("/apiVersion", &*K::api_version(&()), false),
        ("/kind", &*K::kind(&()), false),
        ("/metadata/namespace", key.namespace.as_str(), true),
        ("/metadata/name", key.name.as_str(), true),
    ] {
        let found = document.pointer(field).unwrap_or(&Value::Null);
        let is_right = found == expected || found.is_null() && is_optional;
        let name = field.trim_start_matches('/');
        ensure!(
            is_right,
            "`{name}` is {found}, not \"{expected}\" as its place says"
        );
    }
    set_field(&mut document, "/metadata", "resourceVersion", None);
    let mut unknown = Vec::new();
    let object = serde_ignored::deserialize(&document, |field| unknown.push(field.to_string()));
    let mut object: K = object.map_err(|error| {
        // JSON has no lines. Without `metadata` the type would miss that first.
        let located = serde_saphyr::from_str_with_options::<K>(text, options()).err();
        let located = located.filter(|_| has_metadata);
        located.map_or_else(|| error.into(), yaml_error)
    })?;
    fill_metadata(&mut object, key, &content.bytes, content.fingerprint);
    let warning = warning(text, &unknown);
    Ok(Manifest {
        content,
        document,
        object,
        warning,
    })
}

/// An error of YAML in one line, with its place.
fn yaml_error(error: serde_saphyr::Error) -> anyhow::Error {
    let words = error.render_with_formatter(&serde_saphyr::UserMessageFormatter);
    anyhow!(words.lines().collect::<Vec<_>>().join(" "))
}

/// Fills in the metadata that the path gives. The version is of the content and the file, so that a replaced file counts
/// as changed.
pub(super) fn fill_metadata<K: Kind>(
    object: &mut K,
    key: &ObjectKey,
    bytes: &[u8],
    fingerprint: u64,
) {
    let meta = object.meta_mut();
    meta.namespace = Some(key.namespace.clone());
    meta.name = Some(key.name.clone());
    meta.resource_version = Some(format!("{fingerprint:x}-{:x}", rapidhash_v3(bytes)));
}

/// The fields that are not checked: the type takes the first two from elsewhere, and only programs write a status.
const UNCHECKED: [&str; 3] = ["apiVersion", "kind", "status"];

/// An EgressFirewall, with the lines of its destinations.
#[derive(Default, Deserialize)]
struct Firewall {
    spec: BTreeMap<String, Vec<Rule>>,
}

#[derive(Deserialize)]
struct Rule {
    to: Spanned<EgressFirewallDestination>,
}

/// A part of a manifest that has no effect: a rule without a destination, or a field that the kind does not have.
fn warning(text: &str, unknown: &[String]) -> Option<String> {
    // Other kinds have no such rules.
    let firewall = serde_saphyr::from_str_with_options::<Firewall>(text, options());
    let mut rules = firewall.unwrap_or_default().spec.into_values().flatten();
    let nowhere = EgressFirewallDestination::default();
    if let Some(rule) = rules.find(|rule| rule.to.value == nowhere) {
        let line = rule.to.referenced.line();
        let words = "a rule without a destination, such as `dnsName`, at line";
        return Some(format!("{words} {line}"));
    }
    let is_checked = |field: &&String| !UNCHECKED.iter().any(|it| field.starts_with(it));
    let field = unknown.iter().find(is_checked)?.replace(".?", "");
    let line = line_with(text, field.rsplit('.').next()?);
    let place = line.map_or(String::new(), |line| format!(" at line {line}"));
    Some(format!("unknown field `{field}`{place} has no effect"))
}

/// The line of a word, if only one line has it.
fn line_with(text: &str, word: &str) -> Option<u64> {
    let is_outside = |c: char| !c.is_alphanumeric() && c != '-' && c != '_';
    let has_word = |line: &str| line.split(is_outside).any(|it| it == word);
    let mut lines = text.lines().zip(1..).filter(|(line, _)| has_word(line));
    let (_, line) = lines.next()?;
    lines.next().is_none().then_some(line)
}

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
fn set_field(document: &mut Value, part: &str, field: &str, value: Option<Value>) {
    if let Some(Value::Object(fields)) = document.pointer_mut(part) {
        match value.filter(|value| !value.is_null()) {
            Some(value) => fields.insert(field.to_owned(), value),
            None => fields.remove(field),
        };
    }
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
