//! The files of a bundle.

use std::{collections::BTreeSet, time::Duration};

use futures_util::{StreamExt, future::join_all, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt, api::LogParams};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    corefile,
    redact::{Redaction, addresses_of_names, without_values},
};
use crate::{
    check::{self, facts::Facts, pods::ips, seen::Unseen},
    targets::{Access, Kind, TargetArgs, Targets},
};

/// How many logs are read at once.
const AT_ONCE: usize = 32;

/// The longest wait for a log: the kubelet of a dead node never answers.
const LONGEST: Duration = Duration::from_secs(10);

/// The last lines of each log.
const LINES: i64 = 10_000;

/// The paths that each kind of program is asked for.
const OF_COLLECTOR: [&str; 2] = ["status", "names"];
const OF_WRITER: [&str; 3] = ["status", "sets", "verify"];
const OF_POLICY_WRITER: [&str; 3] = ["status", "dnsresolvers", "verify"];

/// A file, before or after its redaction.
#[derive(Debug)]
pub(super) struct File {
    pub(super) name: String,
    pub(super) text: String,
}

/// The files so far.
#[derive(Default)]
struct Contents {
    files: Vec<File>,
    redaction: Redaction,
    /// The files that could not be read, each with the reason.
    missing: Vec<String>,
}

/// All files, with addresses and secrets crossed out.
pub(super) async fn gather(args: &TargetArgs) -> anyhow::Result<Vec<File>> {
    let mut contents = Contents::default();
    contents.add("version.txt", format!("egress {}\n", runtime::VERSION));
    if args.are_local() {
        let targets = args.find_local();
        contents.add("check.txt", check::local_report(args).await.text());
        contents.add_programs(&targets).await;
    } else {
        let access = Access::new(args).await?;
        let facts = check::facts_of(&access).await;
        contents.add("check.txt", check::report_of(&facts).text());
        contents.add_cluster(&facts);
        let pods = facts.pods.as_deref().unwrap_or_default();
        contents.add_programs(&access.targets_of(pods)).await;
        contents.add_logs(&access, pods).await;
    }
    Ok(contents.redacted())
}

impl Contents {
    fn add(&mut self, name: impl Into<String>, text: String) {
        let name = name.into();
        self.files.push(File { name, text });
    }

    fn add_json(&mut self, name: String, value: &Value) {
        match serde_json::to_string_pretty(value) {
            Ok(text) => self.add(name, text),
            Err(error) => self.missing.push(format!("{name}: {error}")),
        }
    }

    /// The state of each program. All parts are asked for at once, so that a silent node delays the bundle once.
    async fn add_programs(&mut self, targets: &Targets) {
        let parts = [
            (Kind::Collector, &OF_COLLECTOR[..]),
            (Kind::OvnWriter, &OF_WRITER[..]),
            (Kind::PolicyWriter, &OF_POLICY_WRITER[..]),
        ];
        let parts = parts.into_iter();
        let parts = parts.flat_map(|(kind, parts)| parts.iter().map(move |part| (kind, part)));
        let asked = parts.map(async |(kind, part)| {
            let path = format!("/{part}.json");
            (kind, part, targets.ask::<Value>(kind, &path).await)
        });
        for (kind, part, answers) in join_all(asked).await {
            for (target, answer) in answers {
                let place = target.pod().map_or_else(|| plain(&target.place), plain);
                let name = format!("{}/{place}/{part}.json", kind.as_str());
                match answer {
                    Ok(answer) => {
                        addresses_of_names(&answer, &mut self.redaction.known);
                        self.add_json(name, &answer);
                    }
                    Err(error) => self.missing.push(format!("{name}: {error:#}")),
                }
            }
        }
    }

    /// The objects of the chart, and the Corefile.
    fn add_cluster(&mut self, facts: &Facts) {
        let templates = facts.workloads.as_ref().map(|workloads| {
            let of = workloads.iter();
            of.map(|it| json!({ "name": it.name, "template": it.template }))
                .collect::<Vec<_>>()
        });
        self.add_objects("workloads", templates);
        self.add_objects("pods", facts.pods.as_ref());
        self.add_objects("services", facts.services.as_ref());
        self.add_objects("events", facts.events.as_ref());
        for (namespace, policies) in &facts.policies {
            self.add_objects(&format!("network-policies-{namespace}"), policies.as_ref());
        }
        let own = facts
            .pods
            .iter()
            .flatten()
            .chain(facts.dns_pods().map(|it| &it.pod));
        let ips = own.flat_map(ips);
        let services = facts.services.iter().flatten();
        let services =
            services.filter_map(|it| it.spec.as_ref()?.cluster_ip.as_ref()?.parse().ok());
        self.redaction.known.extend(ips.chain(services));
        if let Some((key, map)) = &facts.dns.corefile {
            match map {
                Ok(map) => {
                    let files = map
                        .iter()
                        .filter_map(|map| map.data.clone())
                        .next()
                        .unwrap_or_default();
                    self.redaction.secrets = corefile::secrets(&files);
                    self.add("cluster/corefile.txt", corefile::without_secrets(&files));
                }
                Err(unseen) => self.missing.push(format!("ConfigMap {key}: {}", unseen.0)),
            }
        }
    }

    fn add_objects<T: Serialize>(&mut self, kind: &str, objects: Result<T, &Unseen>) {
        let name = format!("cluster/{kind}.json");
        let objects = objects.map_err(|unseen| unseen.0.clone());
        match objects.and_then(|it| serde_json::to_value(it).map_err(|error| error.to_string())) {
            Ok(mut objects) => {
                without_values(&mut objects);
                self.add_json(name, &objects);
            }
            Err(error) => self.missing.push(format!("{name}: {error}")),
        }
    }

    /// The logs of the chart's pods, also those before a restart.
    async fn add_logs(&mut self, access: &Access, pods: &[Pod]) {
        let api: Api<Pod> = Api::namespaced(access.client.clone(), &access.namespace);
        let wanted = pods.iter().flat_map(|pod| {
            let statuses = pod
                .status
                .iter()
                .flat_map(|it| it.container_statuses.iter().flatten());
            let has_restarted = statuses.map(|it| it.restart_count).any(|count| count > 0);
            let runs: BTreeSet<bool> = [false, has_restarted].into();
            runs.into_iter().map(|previous| (pod.name_any(), previous))
        });
        let read = wanted.map(|(pod, previous)| log(&api, pod, previous));
        let read: Vec<_> = stream::iter(read).buffered(AT_ONCE).collect().await;
        for (name, text) in read {
            match text {
                Ok(text) => self.add(name, text),
                Err(error) => self.missing.push(format!("{name}: {error}")),
            }
        }
    }

    fn redacted(mut self) -> Vec<File> {
        if !self.missing.is_empty() {
            let missing = self.missing.join("\n") + "\n";
            self.add("missing.txt", missing);
        }
        let Self {
            files, redaction, ..
        } = self;
        let redacted = files.into_iter().map(|File { name, text }| File {
            text: redaction.apply(&text),
            name,
        });
        redacted.collect()
    }
}

/// A place as the name of a folder.
fn plain(place: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    place
        .chars()
        .map(|c| if is_plain(c) { c } else { '_' })
        .collect()
}

/// The last lines of a pod's log, with the name of their file.
async fn log(api: &Api<Pod>, pod: String, previous: bool) -> (String, Result<String, String>) {
    let params = LogParams {
        previous,
        tail_lines: Some(LINES),
        ..LogParams::default()
    };
    let which = if previous { "previous.log" } else { "log" };
    let text = match timeout(LONGEST, api.logs(&pod, &params)).await {
        Ok(read) => read.map_err(|error| error.to_string()),
        Err(_elapsed) => Err(format!("no answer within {LONGEST:?}")),
    };
    (format!("logs/{pod}.{which}"), text)
}
