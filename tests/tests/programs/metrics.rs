//! The programs' metrics: documented, named by Prometheus' conventions, and present from the start.

use std::{
    collections::BTreeMap,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use proto::api::Family;
use regex::Regex;
use runtime::metrics::{Label, Metric, MetricKind, PROGRAM, Values};
use tests::world::{Setup, World};
use tokio::{io::AsyncWriteExt, process::Command};

/// Set to anything to write the page instead of comparing it.
const UPDATE: &str = "UPDATE_GENERATED";

const HEAD: &str = "<!-- Generated from the programs; see tests/tests/programs/metrics.rs. -->\n\n# Metrics\n\n\
All programs show their metrics at `/metrics` of `--admin`. Every series has the label `program`, which is `collector`, `ovn-writer` or \
`policy-writer`. The port of `--admin` is 9090 for the collector, 9091 for the ovn-writer and 9094 for the policy-writer by default. \
The chart's value `monitor.enabled` lets the Prometheus operator read them. `networkPolicy.metricsFrom` must then admit Prometheus. \
[troubleshooting.md](troubleshooting.md) has the alerts, and [limits.md](limits.md) says what *left out* means. A later version may rename or remove a metric; the changelog says so.\n";

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md")
}

/// The metric of that name, or the histogram of that series, of any program.
pub(crate) fn documented(series: &str) -> Option<&'static Metric> {
    let tables = [
        collector::METRICS,
        ovn_writer::METRICS,
        policy_writer::METRICS,
    ];
    let mut ends = ["_bucket", "_sum", "_count"].iter();
    let histogram = ends.find_map(|end| series.strip_suffix(end));
    let mut metrics = tables.into_iter().flat_map(metrics_of);
    metrics.find(|it| {
        it.name == series || it.kind == MetricKind::Histogram && Some(it.name) == histogram
    })
}

/// Checks that a program shows only documented metrics, with their labels.
fn check(exposition: &str) {
    let label = Regex::new(r#"([a-z_]+)="((?:[^"\\]|\\.)*)""#).unwrap();
    let lines = exposition.lines();
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (name, labels) = line.split_once('{').expect(line);
        let metric = documented(name).unwrap_or_else(|| panic!("{name} is not documented"));
        let labels = label.captures_iter(labels).map(|it| it.extract().1);
        let mut labels: BTreeMap<&str, &str> = labels.map(|[name, value]| (name, value)).collect();
        assert!(labels.remove(PROGRAM).is_some(), "{line}");
        labels.remove("le");
        for label in metric.labels {
            let value = labels.remove(label.name).expect(line);
            if let Values::OneOf(values) = label.values {
                assert!(values.contains(&value), "{line}");
            }
        }
        assert!(labels.is_empty(), "{line}");
    }
}

fn metrics_of(tables: &'static [&'static [Metric]]) -> impl Iterator<Item = &'static Metric> {
    tables.iter().copied().flatten()
}

/// A section of `docs/metrics.md`: its title, and a table of these metrics by name.
fn section<'a>(title: &str, metrics: impl Iterator<Item = &'a Metric>) -> String {
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

#[test]
fn the_page_of_metrics_is_current() {
    let is_shared = |metric: &&Metric| {
        let is_same = |other: &Metric| other.name == metric.name;
        metrics_of(collector::METRICS).any(is_same) && metrics_of(ovn_writer::METRICS).any(is_same)
    };
    let own = |tables| metrics_of(tables).filter(|metric| !is_shared(metric));
    let sections = [
        section(
            "Several programs",
            metrics_of(collector::METRICS).filter(is_shared),
        ),
        section("collector", own(collector::METRICS)),
        section("ovn-writer", own(ovn_writer::METRICS)),
        section("policy-writer", own(policy_writer::METRICS)),
    ];
    let generated = format!("{HEAD}\n{}", sections.join("\n"));
    if std::env::var_os(UPDATE).is_some() {
        fs::write(page(), &generated).unwrap();
    }
    assert!(
        fs::read_to_string(page()).unwrap_or_default() == generated,
        "docs/metrics.md is not what the programs give; run this test with {UPDATE}=1"
    );
}

/// `promtool check metrics` checks the conventions and the format.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exposed_metrics_match_the_documentation_and_pass_promtool() {
    let name = "www.example.com.";
    let world = World::start(Setup {
        zone: "www IN A 192.0.2.10",
        allow: &[name],
        ..Setup::default()
    })
    .await;
    world.expect_flow(name, Family::V4, "192.0.2.10").await;
    for (program, tables) in [
        (&world.collector, collector::METRICS),
        (&world.ovn_writer, ovn_writer::METRICS),
    ] {
        let (status, text) = program.admin().get("/metrics").await.unwrap();
        assert_eq!(status, 200);
        check(&text);
        let missing = metrics_of(tables).filter(|metric| {
            let is_known = metric
                .labels
                .iter()
                .all(|label| matches!(label.values, Values::OneOf(_)));
            let is_there = text.contains(&format!("# TYPE {} ", metric.name));
            // A gauge without a value is not shown, instead of 0.
            is_known && metric.kind != MetricKind::Gauge && !is_there
        });
        let missing: Vec<_> = missing.map(|metric| metric.name).collect();
        assert_eq!(missing, [""; 0]);
        assert_eq!(promtool(&text).await, "");
    }
}

async fn promtool(text: &str) -> String {
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool, which scripts/setup installs");
    let mut stdin = promtool.stdin.take().unwrap();
    stdin.write_all(text.as_bytes()).await.unwrap();
    drop(stdin);
    let output = promtool.wait_with_output().await.unwrap();
    [output.stdout, output.stderr]
        .map(|it| String::from_utf8(it).unwrap())
        .concat()
}
