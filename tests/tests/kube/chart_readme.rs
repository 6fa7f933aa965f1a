//! The descriptions of the chart's values: the comments in values.yaml, from which the README's table and the schema have them.

use std::fs;

use serde_json::Value;
use tests::chart;

/// Set to anything to write the files instead of comparing them.
const UPDATE: &str = "UPDATE_GENERATED";

/// A value of the chart by its path, such as `dnstap.tcp.port`.
struct Row {
    path: Vec<String>,
    description: String,
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn rows(text: &str) -> Vec<Row> {
    let (mut rows, mut comment): (Vec<Row>, Vec<&str>) = (Vec::new(), Vec::new());
    let mut parents: Vec<(usize, String)> = Vec::new();
    // The indent of the list whose items follow.
    let mut list = None;
    for line in text.lines() {
        let (trimmed, depth) = (line.trim_start(), indent(line));
        if let Some(words) = trimmed.strip_prefix('#') {
            comment.push(words.trim());
            continue;
        }
        let description = std::mem::take(&mut comment).join(" ");
        if trimmed.starts_with("- ") {
            list = Some(depth);
        } else if let Some((key, _)) = trimmed.split_once(':')
            && list.is_none_or(|list| depth <= list)
        {
            list = None;
            parents.retain(|(parent, _)| *parent < depth);
            parents.push((depth, key.to_owned()));
            let path = parents.iter().map(|(_, key)| key.clone()).collect();
            rows.push(Row { path, description });
        }
    }
    rows
}

/// Those without values below them.
fn leaves(rows: &[Row]) -> impl Iterator<Item = &Row> {
    let is_parent = |row: &&Row| {
        rows.iter()
            .any(|other| other.path.len() > row.path.len() && other.path.starts_with(&row.path))
    };
    rows.iter().filter(move |row| !is_parent(row))
}

fn table(rows: &[Row], values: &Value) -> String {
    let row = |row: &Row| {
        let default = row.path.iter().fold(values, |value, key| &value[key]);
        let description = row.description.replace('|', "\\|");
        format!(
            "| `{}` | `{default}` | {description} |\n",
            row.path.join(".")
        )
    };
    let lines: String = leaves(rows).map(row).collect();
    format!("| value | default | meaning |\n|---|---|---|\n{lines}")
}

fn describe(schema: &mut Value, row: &Row) {
    let mut place = schema;
    for key in &row.path {
        place = &mut place["properties"][key];
    }
    assert!(place.is_object(), "the schema lacks {:?}", row.path);
    place["description"] = row.description.clone().into();
}

/// Compares a file with what it should be, or writes it.
fn is_current(name: &str, expected: &str) {
    let path = chart::folder().join(name);
    if std::env::var_os(UPDATE).is_some() {
        fs::write(&path, expected).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap();
    assert!(
        found == expected,
        "{name} is not what values.yaml says; run this test with {UPDATE}=1"
    );
}

#[test]
fn the_readme_and_the_schema_describe_the_values_as_their_comments_do() {
    let text = fs::read_to_string(chart::folder().join("values.yaml")).unwrap();
    let values: Value = serde_saphyr::from_str(&text).unwrap();
    let rows = rows(&text);
    for row in &rows {
        assert!(!row.description.is_empty(), "{:?} has no comment", row.path);
    }
    let readme = fs::read_to_string(chart::folder().join("README.md")).unwrap();
    let (head, _) = readme.split_once("| value |").unwrap();
    is_current("README.md", &format!("{head}{}", table(&rows, &values)));

    let schema = fs::read_to_string(chart::folder().join("values.schema.json")).unwrap();
    let mut schema: Value = serde_json::from_str(&schema).unwrap();
    for row in &rows {
        describe(&mut schema, row);
    }
    let schema = serde_json::to_string_pretty(&schema).unwrap();
    is_current("values.schema.json", &format!("{schema}\n"));
}
