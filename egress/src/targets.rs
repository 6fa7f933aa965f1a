//! The running programs: at local sockets, or in the pods of a cluster, reached by port-forward.

mod cluster;

use std::fmt;

use anyhow::Context;
use clap::Args;
use futures_util::{StreamExt, stream};
use hyper::body::Incoming;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use runtime::{
    args::parse_namespace,
    inspect::client::{ANSWER_TIMEOUT, connect, get, get_json},
    listen::{ListenAddress, parse_local},
};
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::timeout;

pub(crate) use self::cluster::{Access, COMPONENT, forwarded_text, has_ended, of_chart};

/// How many programs are asked at once.
pub(crate) const AT_ONCE: usize = 32;

/// Where the running programs are.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Where to ask")]
pub struct TargetArgs {
    /// The `--inspect` URL of a collector; repeatable.
    ///
    /// With this flag, `--ovn-writer` or `--policy-writer` the command asks these programs only, and no cluster. Default: none.
    #[arg(long, value_name = "URL", value_delimiter = ',', value_parser = parse_local)]
    pub collector: Vec<ListenAddress>,

    /// The `--inspect` URL of an ovn-writer; repeatable.
    ///
    /// Default: none.
    #[arg(long, value_name = "URL", value_delimiter = ',', value_parser = parse_local)]
    pub ovn_writer: Vec<ListenAddress>,

    /// The `--inspect` URL of a policy-writer; repeatable.
    ///
    /// Default: none.
    #[arg(long, value_name = "URL", value_delimiter = ',', value_parser = parse_local)]
    pub policy_writer: Vec<ListenAddress>,

    /// The context of the kubeconfig.
    ///
    /// The command finds the kubeconfig as kubectl does. Default: the current context.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["collector", "ovn_writer", "policy_writer"])]
    pub context: Option<String>,

    /// The namespace in which the chart is installed.
    #[arg(
        long,
        value_name = "NAMESPACE",
        default_value = "egress-by-name",
        value_parser = parse_namespace
    )]
    pub release_namespace: String,
}

/// The kind of a running program.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    Collector,
    OvnWriter,
    PolicyWriter,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Collector, Self::OvnWriter, Self::PolicyWriter];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Collector => "collector",
            Self::OvnWriter => "ovn-writer",
            Self::PolicyWriter => "policy-writer",
        }
    }

    /// Its `--inspect` port in the chart.
    const fn port(self) -> u16 {
        match self {
            Self::Collector => 9092,
            Self::OvnWriter => 9093,
            Self::PolicyWriter => 9095,
        }
    }
}

/// A running program.
pub(crate) struct Target {
    pub(crate) kind: Kind,
    /// The URL of its socket, or its pod and node.
    pub(crate) place: String,
    route: Route,
}

enum Route {
    Socket(ListenAddress),
    Forward { pods: Api<Pod>, pod: String },
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.as_str(), self.place)
    }
}

impl Target {
    fn socket(kind: Kind, address: &ListenAddress) -> Self {
        Self {
            kind,
            place: address.to_string(),
            route: Route::Socket(address.clone()),
        }
    }

    #[cfg(test)]
    pub(crate) fn test(kind: Kind, place: &str) -> Self {
        Self {
            place: place.to_owned(),
            ..Self::socket(kind, &"tcp://127.0.0.1:1".parse().unwrap())
        }
    }

    /// The name of its pod, if it has one.
    pub(crate) fn pod(&self) -> Option<&str> {
        match &self.route {
            Route::Forward { pod, .. } => Some(pod),
            Route::Socket(_) => None,
        }
    }

    /// The JSON answer to a GET.
    ///
    /// # Errors
    /// The program cannot be reached, or does not answer in time.
    pub(crate) async fn ask<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        let asked = async {
            match &self.route {
                Route::Socket(address) => get_json(connect(address).await?, path).await,
                Route::Forward { pods, pod } => {
                    let forwarded = cluster::forward(pods, pod, self.kind.port()).await?;
                    let answer = get_json(forwarded.connection, path).await;
                    forwarded.failure.explain(answer).await
                }
            }
        };
        in_time(asked).await
    }

    /// The body of the answer to a GET. It begins within the time-out of short answers.
    ///
    /// # Errors
    /// As for [`Target::ask`].
    pub(crate) async fn stream(&self, path: &str) -> anyhow::Result<Incoming> {
        let asked = async {
            match &self.route {
                Route::Socket(address) => get(connect(address).await?, path).await,
                Route::Forward { pods, pod } => {
                    let forwarded = cluster::forward(pods, pod, self.kind.port()).await?;
                    let answer = get(forwarded.connection, path).await;
                    forwarded.failure.explain(answer).await
                }
            }
        };
        in_time(asked).await
    }
}

async fn in_time<T>(asked: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let answer = timeout(ANSWER_TIMEOUT, asked).await;
    answer.context("no answer in time").flatten()
}

/// The running programs.
pub(crate) struct Targets {
    pub(crate) all: Vec<Target>,
}

impl TargetArgs {
    /// Finds the running programs.
    ///
    /// # Errors
    /// [`UsageError`](runtime::UsageError): there is no cluster, or it does not list its pods.
    pub(crate) async fn find(&self) -> anyhow::Result<Targets> {
        if !self.are_local() {
            return Access::new(self).await?.targets().await;
        }
        Ok(self.find_local())
    }

    /// The programs at the sockets that are given.
    pub(crate) fn find_local(&self) -> Targets {
        let all = Kind::ALL.into_iter().flat_map(|kind| {
            let sockets = self.sockets(kind).iter();
            sockets.map(move |it| Target::socket(kind, it))
        });
        Targets { all: all.collect() }
    }

    /// Whether sockets are given, so that no cluster is asked.
    pub(crate) fn are_local(&self) -> bool {
        Kind::ALL.iter().any(|kind| !self.sockets(*kind).is_empty())
    }

    fn sockets(&self, kind: Kind) -> &[ListenAddress] {
        match kind {
            Kind::Collector => &self.collector,
            Kind::OvnWriter => &self.ovn_writer,
            Kind::PolicyWriter => &self.policy_writer,
        }
    }
}

impl Targets {
    pub(crate) fn of(&self, kind: Kind) -> impl Iterator<Item = &Target> {
        self.all.iter().filter(move |target| target.kind == kind)
    }

    /// Asks all programs of a kind, 32 at a time. The answers are in their order.
    pub(crate) async fn ask<T: DeserializeOwned>(&self, kind: Kind, path: &str) -> Answers<'_, T> {
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
        f.write_str(&runtime::inspect::text::printable(&line))
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
