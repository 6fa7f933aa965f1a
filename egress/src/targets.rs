//! The running programs: at local sockets, or in the pods of a cluster, reached by port-forward.

mod cluster;

use std::{fmt, path::PathBuf, time::Duration};

use anyhow::{Context, anyhow, bail, ensure};
use clap::Args;
use futures_util::{StreamExt, stream};
use hyper::{Method, body::Incoming};
use kube::Api;
use proto::{
    facts::{Head, LONGEST_CAPTURE, Program, SCHEMA},
    text::printable,
};
use runtime::{
    UsageError,
    args::{format_duration, parse_duration, parse_namespace},
    inspect::client::{Connection, connect, get_bytes, request},
    listen::ListenAddress,
};
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::timeout;

use crate::objects::Pod;

pub(crate) use self::cluster::{Access, COMPONENT, has_ended, of_chart, root_cause};

/// How many programs are asked at once.
pub(crate) const AT_ONCE: usize = 32;

/// Where the running programs are.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Where to ask")]
pub struct TargetArgs {
    /// The `--inspect` URL of a collector; repeatable.
    ///
    /// With this flag, `--ovn-writer` or `--policy-writer` the command asks these programs only, and no cluster. Default: none.
    #[arg(long, value_name = "URL", value_delimiter = ',', value_parser = parse_url, conflicts_with_all = ["context", "kubeconfig"])]
    pub collector: Vec<ListenAddress>,

    /// The `--inspect` URL of an ovn-writer; repeatable.
    ///
    /// Default: none.
    #[arg(long, value_name = "URL", value_delimiter = ',', value_parser = parse_url, conflicts_with_all = ["context", "kubeconfig"])]
    pub ovn_writer: Vec<ListenAddress>,

    /// The `--inspect` URL of a policy-writer; repeatable.
    ///
    /// Default: none.
    #[arg(long, value_name = "URL", value_delimiter = ',', value_parser = parse_url, conflicts_with_all = ["context", "kubeconfig"])]
    pub policy_writer: Vec<ListenAddress>,

    #[command(flatten)]
    pub cluster: AccessArgs,
}

/// Where the cluster is, and the chart in it.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Where to ask")]
pub struct AccessArgs {
    /// The kubeconfig.
    ///
    /// Default: `KUBECONFIG`, the service account of this pod, or `~/.kube/config`.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig.
    ///
    /// Default: the current context.
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,

    /// How long a request may take.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    pub request_timeout: Duration,

    /// The namespace in which the chart is installed.
    #[arg(
        long,
        value_name = "NAMESPACE",
        default_value = "egress-by-name",
        value_parser = parse_namespace
    )]
    pub release_namespace: String,
}

/// The namespace whose rules count.
#[derive(Args, Clone, Debug)]
pub struct NamespaceArgs {
    /// Only the rules of this namespace count. Default: all namespaces.
    #[arg(short, long, value_name = "NAMESPACE", value_parser = parse_namespace)]
    pub namespace: Option<String>,

    /// The rules of all namespaces count, which is the default.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
}

/// Parses the URL of an `--inspect` socket, also as the address of its page: `http://127.0.0.1:9092/`.
fn parse_url(text: &str) -> anyhow::Result<ListenAddress> {
    let url = match text.split_once("://") {
        Some(("unix" | "tcp", _)) => text.to_owned(),
        Some(("http", page)) => {
            let socket = page.split_once('/').map_or(page, |(socket, _)| socket);
            let socket = socket.replace("localhost:", "127.0.0.1:");
            format!("tcp://{socket}")
        }
        _ => bail!("the URL of a program starts with http://, tcp:// or unix://"),
    };
    let address: ListenAddress = url.parse()?;
    let socket = address.socket_address();
    ensure!(
        socket.is_none_or(|socket| socket.ip().is_loopback()),
        "a program shows its state on its own host only: run egress there"
    );
    Ok(address)
}

/// Parses how long a collector sends what it reads. A clap `value_parser`.
pub(crate) fn parse_window(text: &str) -> anyhow::Result<Duration> {
    let window = parse_duration(text)?;
    let longest = LONGEST_CAPTURE.as_secs();
    ensure!(
        !window.is_zero() && window <= LONGEST_CAPTURE,
        "it is 0, or over {longest} s"
    );
    Ok(window)
}

/// The `--inspect` port of a program in the chart.
const fn port(program: Program) -> u16 {
    match program {
        Program::Collector => 9092,
        Program::OvnWriter => 9093,
        Program::PolicyWriter => 9095,
    }
}

/// A running program.
pub(crate) struct Target {
    pub(crate) kind: Program,
    /// The URL of its socket, or its pod and node.
    pub(crate) place: String,
    route: Route,
    timeout: Duration,
}

enum Route {
    Socket(ListenAddress),
    Forward { pods: Box<Api<Pod>>, pod: String },
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.as_str(), self.place)
    }
}

impl Target {
    fn socket(kind: Program, address: &ListenAddress, timeout: Duration) -> Self {
        Self {
            kind,
            place: address.to_string(),
            route: Route::Socket(address.clone()),
            timeout,
        }
    }

    #[cfg(test)]
    pub(crate) fn test(kind: Program, place: &str) -> Self {
        Self {
            place: place.to_owned(),
            ..Self::socket(kind, &"tcp://127.0.0.1:1".parse().unwrap(), Duration::ZERO)
        }
    }

    /// The name of its pod, if it has one.
    pub(crate) fn pod(&self) -> Option<&str> {
        match &self.route {
            Route::Forward { pod, .. } => Some(pod),
            Route::Socket(_) => None,
        }
    }

    /// The answer to a GET.
    ///
    /// # Errors
    /// The program cannot be reached, does not answer in time, or is another one.
    pub(crate) async fn ask<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        self.read(&self.send(path, get_bytes).await?)
    }

    /// The answer, if it is one of this kind of program.
    fn read<T: DeserializeOwned>(&self, answer: &[u8]) -> anyhow::Result<T> {
        let head = serde_json::from_slice::<Head>(answer);
        let head = head.context("the answer is not the expected JSON")?;
        let (found, wanted) = (head.program, self.kind);
        if found != wanted {
            let (found, wanted) = (found.as_str(), wanted.as_str());
            bail!("it is no {wanted}, but the {found}: give its URL by --{found}");
        }
        if head.schema != SCHEMA {
            let (schema, version) = (head.schema, head.version);
            bail!(
                "its facts have schema {schema}, and this command reads schema {SCHEMA}: use egress {version}"
            );
        }
        serde_json::from_slice(answer).context("the answer is not the expected JSON")
    }

    /// The body of the answer to a request. It begins within the time-out of short answers.
    ///
    /// # Errors
    /// As for [`Target::ask`].
    pub(crate) async fn request(&self, method: Method, path: &str) -> Result<Incoming, UsageError> {
        let send = async |connection, path: &str| request(method, connection, path).await;
        let body = self.send(path, send).await;
        body.map_err(|error| UsageError(format!("no answer of the {self}: {error:#}")))
    }

    /// The answer to what `send` asks, within the time-out.
    async fn send<T>(
        &self,
        path: &str,
        send: impl AsyncFnOnce(Box<dyn Connection>, &str) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let asked = async {
            match &self.route {
                Route::Socket(address) => send(open(address).await?, path).await,
                Route::Forward { pods, pod } => {
                    let forwarded = cluster::forward(pods, pod, port(self.kind)).await?;
                    let answer = send(forwarded.connection, path).await;
                    forwarded.failure.explain(answer).await
                }
            }
        };
        let answer = timeout(self.timeout, asked).await;
        answer.unwrap_or_else(|_elapsed| {
            let timeout = format_duration(self.timeout);
            Err(anyhow!(
                "no answer in {timeout}; --request-timeout allows more time"
            ))
        })
    }
}

async fn open(address: &ListenAddress) -> anyhow::Result<Box<dyn Connection>> {
    let connection = connect(address).await;
    connection.map_err(|error| anyhow!("{error}; does it run with --inspect {address}?"))
}

/// The running programs.
pub(crate) struct Targets {
    pub(crate) all: Vec<Target>,
}

impl TargetArgs {
    /// Finds the running programs.
    ///
    /// # Errors
    /// [`UsageError`]: there is no cluster, or it does not list its pods.
    pub(crate) async fn find(&self) -> anyhow::Result<Targets> {
        if !self.are_local() {
            return Ok(Access::new(&self.cluster).await?.targets().await?);
        }
        Ok(self.find_local())
    }

    /// The programs at the sockets that are given.
    pub(crate) fn find_local(&self) -> Targets {
        let all = Program::ALL.into_iter().flat_map(|kind| {
            let sockets = self.sockets(kind).iter();
            sockets.map(move |it| Target::socket(kind, it, self.cluster.request_timeout))
        });
        Targets { all: all.collect() }
    }

    /// Whether sockets are given, so that no cluster is asked.
    pub(crate) fn are_local(&self) -> bool {
        Program::ALL
            .iter()
            .any(|kind| !self.sockets(*kind).is_empty())
    }

    fn sockets(&self, kind: Program) -> &[ListenAddress] {
        match kind {
            Program::Collector => &self.collector,
            Program::OvnWriter => &self.ovn_writer,
            Program::PolicyWriter => &self.policy_writer,
        }
    }
}

impl Targets {
    pub(crate) fn of(&self, kind: Program) -> impl Iterator<Item = &Target> {
        self.all.iter().filter(move |target| target.kind == kind)
    }

    /// Asks all programs of a kind, 32 at a time. The answers are in their order.
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        kind: Program,
        path: &str,
    ) -> Answers<'_, T> {
        let asked = self.of(kind);
        let asked = asked.map(|target| async move { (target, target.ask(path).await) });
        stream::iter(asked).buffered(AT_ONCE).collect().await
    }
}

/// The answers of several programs.
pub(crate) type Answers<'a, T> = Vec<(&'a Target, anyhow::Result<T>)>;

/// A program that does not answer, and why.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Unreachable {
    pub(crate) program: String,
    pub(crate) error: String,
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { program, error } = self;
        let line = format!("the {program} does not answer: {error}");
        f.write_str(&printable(&line))
    }
}

impl Unreachable {
    pub(crate) fn new(target: &Target, error: &anyhow::Error) -> Self {
        Self {
            program: target.to_string(),
            error: format!("{error:#}"),
        }
    }

    /// The answers, and the programs without one.
    pub(crate) fn split<T>(answers: Answers<'_, T>) -> (Vec<(&Target, T)>, Vec<Self>) {
        let mut reached = Vec::new();
        let mut unreachable = Vec::new();
        for (target, answer) in answers {
            match answer {
                Ok(answer) => reached.push((target, answer)),
                Err(error) => unreachable.push(Self::new(target, &error)),
            }
        }
        (reached, unreachable)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answer_of_another_program_or_schema_is_refused_by_name() {
        let collector = Target::test(Program::Collector, "a");
        let read = |head: serde_json::Value| {
            let answer = head.to_string();
            collector
                .read::<Head>(answer.as_bytes())
                .map_err(|it| format!("{it:#}"))
        };
        let head = json!({
            "schema": SCHEMA, "program": "collector", "version": "1.2.3", "pod": null, "node": null, "namespace": null,
            "started": "2026-01-01T00:00:00Z", "now": "2026-01-01T00:00:00Z", "leader": true,
        });
        let mut other = head.clone();
        other["program"] = "ovn-writer".into();
        let mut newer = head.clone();
        newer["schema"] = 99.into();
        assert!(read(head).is_ok());
        assert_eq!(
            read(other).unwrap_err(),
            "it is no collector, but the ovn-writer: give its URL by --ovn-writer"
        );
        let error = read(newer).unwrap_err();
        assert!(
            error.contains("schema 99") && error.contains("egress 1.2.3"),
            "{error}"
        );
        let error = read(json!({"x": 1})).unwrap_err();
        assert!(
            error.starts_with("the answer is not the expected JSON"),
            "{error}"
        );
    }
}
