//! Checks the Corefiles in the cluster, of CoreDNS and of a NodeLocal DNSCache. The leader checks
//! each change. So a `dnstap` line that an operator or an add-on removed is reported before pods
//! cannot connect.

use std::pin::pin;

use anyhow::bail;
use futures_util::{StreamExt, stream};
use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{ConfigMap, ObjectReference},
};
use kube::Resource;
use runtime::{
    cluster::Cluster,
    kube_events::{Reporter, Severity},
    leader::Leader,
    metrics::{Label, Metric, Series},
    store::{Event, ObjectKey},
};
use serde::Serialize;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{Finding, Imports, KEY, Line, Scope, bypasses, findings};

/// The most findings kept. Further ones differ in their lines only.
const MAX_FINDINGS: usize = 100;

/// The most findings in an Event, and the length of each.
const MAX_NAMED: usize = 5;
const MAX_WORDS: usize = 150;

/// The reason of the Event.
const REASON: &str = "AnswersNotSeen";

pub const METRICS: &[Metric] = &[FAULTS];

const FAULTS: Metric = Metric::gauge(
    "egress_collector_corefile_faults",
    &[Label::any("config_map", "its namespace and name")],
    "Faults in a live Corefile that hide answers: a server block without a `dnstap` line, or a NodeLocal \
     DNSCache that bypasses the cluster's DNS. Only the leader shows it",
);

/// A Corefile, and its requirements.
#[derive(Clone, Debug)]
pub struct Config {
    pub config_map: ObjectKey,
    pub duty: Duty,
    pub scope: Scope,
}

/// The requirements for a Corefile.
#[derive(Clone, Debug)]
pub enum Duty {
    /// Every block has these lines; without any, lines for so many endpoints.
    Stream(Vec<Line>, usize),
    /// The Corefile of a NodeLocal DNSCache, if this DaemonSet exists: every block forwards to the
    /// cluster's DNS.
    Forward(ObjectKey),
}

/// The result of a check, for the status page.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LiveView {
    pub config_map: ObjectKey,
    #[serde(flatten)]
    pub state: CorefileState,
}

/// The state of a ConfigMap.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum CorefileState {
    /// It was not read yet.
    #[default]
    Unknown,
    /// It cannot be read.
    Unreadable { reason: String },
    /// It does not exist.
    Absent,
    /// The findings of its Corefile, at most 100.
    Read {
        /// Sorted by line.
        findings: Vec<Finding>,
    },
}

impl CorefileState {
    fn of(map: &ConfigMap, config: &Config) -> Self {
        let mut files = map.data.clone().unwrap_or_default();
        let fault = |words: String| {
            let findings = vec![Finding {
                line: 1,
                is_fault: true,
                words,
            }];
            Self::Read { findings }
        };
        let Some(corefile) = files.remove(KEY) else {
            return fault(format!("there is no data under `{KEY}`"));
        };
        let imports = Imports::Files(files);
        let look = match &config.duty {
            Duty::Forward(_) => bypasses(&corefile, &config.scope, &imports),
            Duty::Stream(lines, endpoints) => {
                findings(&corefile, lines, *endpoints, &config.scope, &imports)
            }
        };
        let mut all = match look {
            Ok(found) => found,
            Err(error) => return fault(error.to_string()),
        };
        // Faults stay, and warnings go first.
        all.sort_by_key(|finding| (!finding.is_fault, finding.line));
        all.truncate(MAX_FINDINGS);
        Self::Read { findings: all }
    }

    /// The findings that hide answers.
    pub fn faults(&self) -> impl Iterator<Item = &Finding> {
        let found = match self {
            Self::Read { findings } => findings.as_slice(),
            Self::Unknown | Self::Unreadable { .. } | Self::Absent => &[],
        };
        found.iter().filter(|finding| finding.is_fault)
    }
}

/// Checks until the token is cancelled, and publishes the state.
///
/// # Errors
/// The watch ended, which it never does.
pub async fn run(
    config: Config,
    cluster: Cluster,
    mut leader: Leader,
    reporter: Reporter,
    shown: watch::Sender<Option<LiveView>>,
    token: CancellationToken,
) -> anyhow::Result<()> {
    let mut events = pin!(cluster.watch_one::<ConfigMap>(&config.config_map));
    let mut daemon_sets = match &config.duty {
        Duty::Stream(..) => stream::pending().boxed(),
        Duty::Forward(daemon_set) => cluster.watch_one::<DaemonSet>(daemon_set).boxed(),
    };
    let mut speaker = CorefileEvents {
        config: &config,
        reporter,
        about: config.config_map.reference::<ConfigMap>(),
        state: CorefileState::default(),
        is_used: matches!(config.duty, Duty::Stream(..)),
        told: Vec::new(),
        series: Series::of(&FAULTS),
    };
    loop {
        shown.send_replace(Some(LiveView {
            config_map: config.config_map.clone(),
            state: speaker.state().clone(),
        }));
        speaker.speak(leader.is_leading());
        tokio::select! {
            () = token.cancelled() => return Ok(()),
            event = events.next() => match event {
                Some(event) => speaker.take(event),
                None => bail!("the watch of the ConfigMap ended"),
            },
            Some(event) = daemon_sets.next() => speaker.take_daemon_set(&event),
            () = leader.changed() => {}
        }
    }
}

struct CorefileEvents<'a> {
    config: &'a Config,
    reporter: Reporter,
    about: ObjectReference,
    state: CorefileState,
    /// The DaemonSet that uses it exists.
    is_used: bool,
    /// The faults that were reported.
    told: Vec<Finding>,
    series: Series,
}

impl CorefileEvents<'_> {
    fn take(&mut self, event: Event<ConfigMap>) {
        self.state = match event {
            Event::Synced(maps) => match maps.first() {
                Some(map) => self.read(map),
                None => CorefileState::Absent,
            },
            Event::Applied(map) => self.read(&map),
            Event::Deleted(_) => CorefileState::Absent,
            Event::Undecodable(_) => CorefileState::Unreadable {
                reason: "the ConfigMap cannot be decoded".to_owned(),
            },
            // The last state that was read stays.
            Event::OutOfSync(_) if matches!(self.state, CorefileState::Read { .. }) => return,
            Event::OutOfSync(reason) => {
                if !matches!(self.state, CorefileState::Unreadable { .. }) {
                    let map = &self.config.config_map;
                    info!(config_map = %map, %reason, "cannot read the live Corefile, so the collector does not check it: allow it to read the ConfigMap");
                }
                CorefileState::Unreadable { reason }
            }
        };
    }

    fn take_daemon_set(&mut self, event: &Event<DaemonSet>) {
        match event {
            Event::Synced(sets) => self.is_used = !sets.is_empty(),
            Event::Applied(_) => self.is_used = true,
            Event::Deleted(_) => self.is_used = false,
            // The last state that was read stays.
            Event::OutOfSync(_) | Event::Undecodable(_) => {}
        }
    }

    fn state(&self) -> &CorefileState {
        if self.is_used {
            &self.state
        } else {
            &CorefileState::Absent
        }
    }

    fn read(&mut self, map: &ConfigMap) -> CorefileState {
        self.about = map.object_ref(&());
        CorefileState::of(map, self.config)
    }

    /// Reports faults when they change. Only the leader does.
    fn speak(&mut self, leads: bool) {
        let faults: Vec<Finding> = self.state().faults().cloned().collect();
        let is_known = matches!(self.state(), CorefileState::Read { .. });
        let labels = [self.config.config_map.to_string()];
        let shown = (leads && is_known).then_some(faults.len() as f64);
        self.series.put(labels, shown);
        if !leads || faults.is_empty() {
            if leads && is_known && !self.told.is_empty() {
                info!(config_map = %self.config.config_map, "the live Corefile has no faults any more");
            }
            self.told.clear();
            return;
        }
        for fault in faults.iter().filter(|fault| !self.told.contains(fault)) {
            warn!(config_map = %self.config.config_map, "live Corefile: {fault}");
        }
        if faults != self.told {
            let (about, note) = (self.about.clone(), note(&faults));
            self.reporter.report(about, Severity::Warning, REASON, note);
        }
        self.told = faults;
    }
}

/// A few of the faults, and the number of further ones.
fn note(faults: &[Finding]) -> String {
    let named = faults.iter().take(MAX_NAMED).map(|fault| {
        let words: String = fault.words.chars().take(MAX_WORDS).collect();
        format!("line {}: {words}", fault.line)
    });
    let mut note = named.collect::<Vec<_>>().join("; ");
    if let more @ 1.. = faults.len().saturating_sub(MAX_NAMED) {
        note.push_str(&format!("; and {more} more"));
    }
    note
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(lines: &[&str]) -> Config {
        Config {
            config_map: "kube-system/coredns".parse().unwrap(),
            duty: Duty::Stream(lines.iter().copied().map(line).collect(), 1),
            scope: Scope {
                cluster_domains: vec!["cluster.local".to_owned()],
            },
        }
    }

    fn map(corefile: &str) -> ConfigMap {
        let data = [(KEY.to_owned(), corefile.to_owned())];
        ConfigMap {
            data: Some(data.into()),
            ..ConfigMap::default()
        }
    }

    fn state(corefile: &str, lines: &[&str]) -> CorefileState {
        CorefileState::of(&map(corefile), &config(lines))
    }

    fn line(endpoint: &str) -> Line {
        Line {
            endpoint: endpoint.to_owned(),
            extra: None,
        }
    }

    #[test]
    fn a_block_that_lacks_the_line_is_a_fault_and_one_that_has_it_is_none() {
        let with =
            ".:53 {\n    dnstap tcp://10.96.0.53:6000 full\n    forward . /etc/resolv.conf\n}\n";
        let without = with.replace("dnstap", "#");
        let (ours, other) = ("tcp://10.96.0.53:6000", "tcp://10.96.0.54:6000");
        assert_eq!(state(with, &[]).faults().count(), 0);
        assert_eq!(state(with, &[ours]).faults().count(), 0);
        assert_eq!(state(&without, &[]).faults().count(), 1);
        assert_eq!(state(&without, &[ours]).faults().count(), 1);
        assert_eq!(state(with, &[other]).faults().count(), 1);
        // Each event must reach both.
        assert_eq!(state(with, &[ours, other]).faults().count(), 1);
        let cluster = "cluster.local {\n    kubernetes cluster.local\n}\n";
        assert_eq!(state(cluster, &[ours]).faults().count(), 0);
    }

    #[test]
    fn a_node_local_cache_that_sends_names_elsewhere_is_a_fault() {
        let corefile = "cluster.local:53 {\n    bind 169.254.20.10\n    forward . __PILLAR__CLUSTER__DNS__ {\n        force_tcp\n    }\n}\n\
                        .:53 {\n    bind 169.254.20.10\n    forward . __PILLAR__UPSTREAM__SERVERS__\n}\n";
        let mut config = config(&[]);
        config.duty = Duty::Forward("kube-system/node-local-dns".parse().unwrap());
        let faults = |corefile: &str| {
            let state = CorefileState::of(&map(corefile), &config);
            state.faults().map(|fault| fault.line).collect::<Vec<_>>()
        };
        assert_eq!(faults(corefile), [7]);
        let patched = corefile.replace("__PILLAR__UPSTREAM__SERVERS__", "__PILLAR__CLUSTER__DNS__");
        assert_eq!(faults(&patched), [0; 0]);
    }

    #[test]
    fn what_is_no_corefile_is_a_fault() {
        assert_eq!(state("}", &[]).faults().count(), 1);
    }

    #[test]
    fn a_note_names_a_few_faults_and_fits_an_event() {
        let fault = |line| Finding {
            line,
            is_fault: true,
            words: "x".repeat(1000),
        };
        let faults: Vec<_> = (1..=7).map(fault).collect();
        let note = note(&faults);
        assert!(
            note.len() <= 1024 && note.ends_with("; and 2 more"),
            "{note}"
        );
    }
}
