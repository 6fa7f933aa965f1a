//! Compares the programs' metrics with `docs/metrics.md`: no program may have undocumented ones.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

/// The label that every series has.
const PROGRAM: &str = "program";

/// A documented metric.
#[derive(Clone, Debug)]
pub struct Documented {
    /// `counter`, `gauge` or `histogram`.
    pub kind: String,
    /// Its labels and their values; `None` for arbitrary values.
    pub labels: BTreeMap<String, Option<BTreeSet<String>>>,
    pub meaning: String,
}

static DOCUMENTED: LazyLock<BTreeMap<String, Documented>> = LazyLock::new(|| {
    let text = fs::read_to_string(path()).expect("docs/metrics.md");
    text.lines().filter_map(row).collect()
});

/// `docs/metrics.md`.
pub fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md")
}

/// The metric of that name, or the histogram of that series.
pub fn documented(series: &str) -> Option<&'static Documented> {
    let histogram = || {
        let of = |end| series.strip_suffix(end).and_then(|it| DOCUMENTED.get(it));
        let found = of("_bucket")
            .or_else(|| of("_sum"))
            .or_else(|| of("_count"));
        found.filter(|metric| metric.kind == "histogram")
    };
    DOCUMENTED.get(series).or_else(histogram)
}

/// Checks a program's `/metrics` against the documentation.
///
/// # Errors
/// The first difference.
pub fn check(exposition: &str) -> Result<(), String> {
    let mut told = BTreeSet::new();
    for line in exposition.lines().filter(|line| !line.is_empty()) {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, meaning) = help.split_once(' ').unwrap_or((help, ""));
            let metric = DOCUMENTED
                .get(name)
                .ok_or(format!("{name} is not documented"))?;
            if metric.meaning != meaning {
                return Err(format!(
                    "{name} is documented otherwise than by {meaning:?}"
                ));
            }
            told.insert(name);
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap_or((kind, ""));
            let documented = DOCUMENTED.get(name).map(|metric| &*metric.kind);
            if documented != Some(kind) || !told.contains(name) {
                return Err(format!("{name}, a {kind}, is documented as {documented:?}"));
            }
        } else {
            let (series, _) = line.rsplit_once(' ').unwrap_or((line, ""));
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            let metric = documented(name).ok_or(format!("{name} is not documented"))?;
            check_labels(metric, labels.trim_end_matches('}'))
                .map_err(|error| format!("{line}: {error}"))?;
        }
    }
    Ok(())
}

fn check_labels(metric: &Documented, labels: &str) -> Result<(), String> {
    let mut labels = parse_labels(labels);
    if labels.remove(PROGRAM).is_none() {
        return Err("it does not name its program".to_owned());
    }
    let shown = labels.keys().filter(|it| *it != "le");
    if !shown.eq(metric.labels.keys()) {
        return Err(format!("its labels are documented as {:?}", metric.labels));
    }
    for (name, value) in &labels {
        if let Some(Some(values)) = metric.labels.get(name)
            && !values.contains(value)
        {
            return Err(format!("{name} is documented as one of {values:?}"));
        }
    }
    Ok(())
}

/// Parses `a="b",c="d"`.
fn parse_labels(text: &str) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    let mut rest = text;
    while let Some((name, after)) = rest.split_once("=\"") {
        let mut value = String::new();
        let mut escaped = false;
        let mut end = after.len();
        for (i, c) in after.char_indices() {
            match c {
                '"' if !escaped => {
                    end = i + 1;
                    break;
                }
                '\\' if !escaped => escaped = true,
                c => {
                    value.push(c);
                    escaped = false;
                }
            }
        }
        labels.insert(name.trim_matches([',', ' ']).to_owned(), value);
        rest = &after[end..];
    }
    labels
}

/// A row of a table: metric, type, unit, labels, meaning.
fn row(line: &str) -> Option<(String, Documented)> {
    let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
    let [name, kind, _unit, labels, meaning] = cells[..] else {
        return None;
    };
    let name = name.strip_prefix('`')?.strip_suffix('`')?;
    let labels = labels.split("; ").filter(|label| !label.is_empty());
    let label = |text: &str| {
        let (name, kind) = text[1..].split_once('`').expect("a label");
        let values = kind.strip_prefix(": ");
        let values = values.map(|values| values.split(", ").map(str::to_owned).collect());
        (name.to_owned(), values)
    };
    let metric = Documented {
        kind: kind.to_owned(),
        labels: labels.map(label).collect(),
        meaning: meaning.to_owned(),
    };
    Some((name.to_owned(), metric))
}
