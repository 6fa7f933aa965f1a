//! The page of the JSON that the programs serve, made of the types in `proto`.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use proto::facts::{EXPLAIN, Explanation, STATUS, Status, VERIFY, Verification};
use schemars::{JsonSchema, schema_for};
use serde_json::Value;

/// Set to anything to write the page instead of comparing it.
const UPDATE: &str = "UPDATE_GENERATED";

const HEAD: &str = "<!-- Generated from the types of proto::facts; see proto/tests/api.rs. -->\n\n# State as JSON\n\n\
Each program serves its facts at `--inspect`. `schema` is the version of this description. A field without a value may be absent.\n\n\
| path | parameters |\n|---|---|\n\
| `/status.json` | `name=TEXT`: only names that contain it, or whose objects or sets do. `namespace=NAMESPACE`: only names in its rules. \
`limit=NUMBER`: the most names, 500 at most. `after=NAME`: the names after this one; `next` of a page gives it. `recent=NUMBER`: the latest new \
addresses, 1,000 at most |\n\
| `/explain.json` | `about=NAME` or `about=ADDRESS`; `namespace=NAMESPACE`: only the rules of it |\n\
| `/verify.json` | none; of an ovn-writer and a policy-writer |\n";

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/api.md")
}

#[test]
fn the_page_of_the_api_is_current() {
    let mut page = HEAD.to_owned();
    let mut types = BTreeMap::new();
    document::<Status>(STATUS, &mut page, &mut types);
    document::<Explanation>(EXPLAIN, &mut page, &mut types);
    document::<Verification>(VERIFY, &mut page, &mut types);
    page += "\n## Types\n";
    for (name, schema) in &types {
        describe(&format!("### {name}"), schema, &mut page);
    }
    if std::env::var_os(UPDATE).is_some() {
        fs::write(path(), &page).unwrap();
    }
    assert!(
        fs::read_to_string(path()).unwrap_or_default() == page,
        "docs/api.md is not what the types give; run this test with {UPDATE}=1"
    );
}

/// Adds the fields of an answer, and its types.
fn document<T: JsonSchema>(path: &str, page: &mut String, types: &mut BTreeMap<String, Value>) {
    let schema = serde_json::to_value(schema_for!(T)).unwrap();
    describe(&format!("## `{path}`"), &schema, page);
    for (name, schema) in schema["$defs"].as_object().into_iter().flatten() {
        types.insert(name.clone(), schema.clone());
    }
}

fn describe(heading: &str, schema: &Value, page: &mut String) {
    write!(page, "\n{heading}\n\n{}\n", text(schema)).unwrap();
    let fields = schema["properties"].as_object();
    if let Some(fields) = fields {
        page.push_str("\n| field | type | meaning |\n|---|---|---|\n");
        for (name, field) in fields {
            writeln!(page, "| `{name}` | {} | {} |", kind(field), text(field)).unwrap();
        }
    }
    let values = schema["oneOf"].as_array();
    if let Some(values) = values {
        page.push_str("\n| value | meaning |\n|---|---|\n");
        for value in values {
            writeln!(
                page,
                "| `{}` | {} |",
                value["const"].as_str().unwrap(),
                text(value)
            )
            .unwrap();
        }
    }
}

/// The description in one line.
fn text(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default();
    // Links between types are for rustdoc.
    let text = text.replace("\n", " ").replace("|", "\\|");
    let mut plain = String::new();
    for (index, part) in text.split("](").enumerate() {
        match part.split_once(')') {
            Some((_, rest)) if index > 0 => plain += rest,
            _ => plain += part,
        }
    }
    plain.replace(['[', ']'], "")
}

/// The type of a field.
fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap();
        return format!("[{name}](#{})", name.to_lowercase());
    }
    let all = schema["anyOf"].as_array().or(schema["oneOf"].as_array());
    if let Some(all) = all {
        return all.iter().map(kind).collect::<Vec<_>>().join(" or ");
    }
    let one = |kind: &str| match kind {
        "array" => format!("list of {}", kind_of_items(schema)),
        "object" => format!("map to {}", self::kind(&schema["additionalProperties"])),
        "string" if schema["format"] == "date-time" => "time".to_owned(),
        "string" if schema["format"] == "ip" => "IP address".to_owned(),
        kind => kind.to_owned(),
    };
    match &schema["type"] {
        Value::String(kind) => one(kind),
        Value::Array(kinds) => {
            let kinds = kinds.iter().map(|it| one(it.as_str().unwrap()));
            kinds.collect::<Vec<_>>().join(" or ")
        }
        _ => "any".to_owned(),
    }
}

fn kind_of_items(schema: &Value) -> String {
    kind(&schema["items"])
}
