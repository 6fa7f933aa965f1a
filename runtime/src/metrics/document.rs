//! The metrics of a program as Markdown.

use std::fmt::Write;

use super::{Label, Metric, Values};

/// A section of `docs/metrics.md`: its title, and a table of these metrics by name.
pub fn section<'a>(title: &str, metrics: impl Iterator<Item = &'a Metric>) -> String {
    let mut metrics: Vec<&Metric> = metrics.collect();
    metrics.sort_by_key(|metric| metric.name);
    let mut text = format!(
        "## {title}\n\n| metric | type | unit | labels | meaning |\n|---|---|---|---|---|\n"
    );
    for metric in metrics {
        let unit = metric.unit().map_or("", |unit| unit.as_str());
        let labels: Vec<String> = metric.labels.iter().map(label).collect();
        // Writing to a String cannot fail.
        let _ok = writeln!(
            text,
            "| `{}` | {} | {unit} | {} | {} |",
            metric.name,
            metric.kind,
            labels.join("; "),
            metric.meaning.replace('|', "\\|"),
        );
    }
    text
}

fn label(label: &Label) -> String {
    match label.values {
        Values::OneOf(values) => format!("`{}`: {}", label.name, values.join(", ")),
        Values::Any(kind) => format!("`{}` ({kind})", label.name),
    }
}
