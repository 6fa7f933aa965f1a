//! The dashboard's queries and the alerts, in a real Prometheus that scrapes the programs.

use std::{fmt::Write as _, fs, net::SocketAddr, path::Path};

use proto::api::Family;
use serde_json::{Value, json};
use tests::{
    admin::Admin,
    coredns::free_port,
    process::Process,
    wait::eventually,
    workdir::Workdir,
    world::{Setup, World},
};

const NAME: &str = "www.example.com.";

/// A part of the only query without an answer: the programs have no certificates here.
const WITHOUT_ANSWER: &str = "certificate";

/// A Prometheus that scrapes these programs every second.
struct Prometheus {
    api: Admin,
    _process: Process,
    _workdir: Workdir,
}

impl Prometheus {
    async fn start(targets: &[(&str, SocketAddr)]) -> Self {
        let workdir = Workdir::new();
        let address = free_port();
        let rules = ["alerts.yaml", "alerts-ovn-writer.yaml"];
        let rules = rules.map(|file| root().join("deploy/chart/files").join(file));
        let statics = targets.iter().map(|(pod, address)| {
            let labels = json!({"namespace": "egress-by-name", "pod": pod, "node": "node-1"});
            json!({"targets": [address], "labels": labels})
        });
        let config = json!({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": rules,
            "scrape_configs": [{"job_name": "egress", "static_configs": statics.collect::<Vec<_>>()}],
        });
        let file = workdir.join("prometheus.yaml");
        fs::write(&file, config.to_string()).unwrap();
        let args = [
            format!("--config.file={}", file.display()),
            format!("--storage.tsdb.path={}", workdir.join("data").display()),
            format!("--web.listen-address={address}"),
        ];
        let program = Path::new("prometheus");
        let process = Process::start(workdir.path(), "prometheus", program, args, &[]);
        let prometheus = Self {
            api: Admin::new(address),
            _process: process,
            _workdir: workdir,
        };
        eventually("Prometheus is ready", async || {
            match prometheus.api.get("/-/ready").await {
                Ok((200, _)) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        prometheus
    }

    /// The data of an answer.
    async fn get(&self, path: &str) -> Value {
        let (code, body) = self.api.get(path).await.unwrap();
        let answer: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(
            (code, &answer["status"]),
            (200, &"success".into()),
            "{path}: {body}"
        );
        answer["data"].clone()
    }

    /// The series that a query finds now.
    async fn query(&self, expression: &str) -> Vec<Value> {
        let mut path = "/api/v1/query?query=".to_owned();
        for byte in expression.bytes() {
            write!(path, "%{byte:02X}").unwrap();
        }
        let data = self.get(&path).await;
        data["result"].as_array().unwrap().clone()
    }
}

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The queries of the dashboard for all namespaces and nodes.
fn queries() -> Vec<String> {
    let text = fs::read_to_string(root().join("deploy/chart/files/dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let queries = targets.map(|target| target["expr"].as_str().unwrap());
    let filled = queries.map(|query| {
        let query = query.replace("$__rate_interval", "1m");
        query.replace("$namespace", ".*").replace("$node", ".*")
    });
    filled.collect()
}

#[tokio::test]
async fn a_prometheus_of_the_programs_answers_the_dashboards_queries() {
    let mut world = World::start(Setup {
        zone: "www IN A 192.0.2.10",
        allow: &[NAME],
        ..Setup::default()
    })
    .await;
    world
        .restart_asking(&["--flush-probe", "100ms", "--min-ttl", "1s"])
        .await;
    world.expect_flow(NAME, Family::V4, "192.0.2.10").await;
    let targets = [
        ("collector-0", world.collector.admin().address()),
        ("ovn-writer-0", world.ovn_writer.admin().address()),
    ];
    let prometheus = Prometheus::start(&targets).await;
    for query in queries() {
        // Two scrapes of a program give its first rates.
        eventually(&query, async || {
            let answers = prometheus.query(&query).await;
            let is_answered = !answers.is_empty() || query.contains(WITHOUT_ANSWER);
            is_answered
                .then_some(())
                .ok_or_else(|| "no series".to_owned())
        })
        .await;
    }
    let of_node = "count by (node) (egress_build_info{program=\"ovn-writer\"})";
    let nodes = prometheus.query(of_node).await;
    assert_eq!(nodes[0]["metric"], json!({"node": "node-1"}));

    let rules = eventually("Prometheus has evaluated the alerts", async || {
        let data = prometheus.get("/api/v1/rules").await;
        let groups = data["groups"].as_array().unwrap().iter();
        let rules = groups.flat_map(|group| group["rules"].as_array().unwrap().clone());
        let rules: Vec<Value> = rules.collect();
        let are_known = rules.iter().all(|rule| rule["health"] != "unknown");
        (are_known && !rules.is_empty())
            .then_some(rules.clone())
            .ok_or_else(|| format!("{rules:?}"))
    })
    .await;
    for rule in rules {
        assert_eq!(rule["health"], "ok", "{rule}");
        assert_eq!(rule["state"], "inactive", "{rule}");
    }
}
