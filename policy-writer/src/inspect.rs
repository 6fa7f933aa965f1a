//! `--inspect`: the writer's state, for administrators and for the program `egress`.
//!
//! `render_text` has the answers as text.

mod render_text;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{RawQuery, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use runtime::{
    VERSION,
    admin::{Condition, Health},
    inspect::{
        Asked, Inspect, busy,
        explain::{self, QueryPacer},
        json,
        problems::{Problem, Problems},
        query, refusal,
    },
    instance::Instance,
    store::{BadObject, BadObjects, ObjectKey},
};
use serde::Serialize;
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{
    PROGRAM,
    planner::{Comparison, Explanation, Listing, ListingQuery, ResolverShown, Totals},
};

/// The number of parallel queries; further ones wait.
pub const QUEUE: usize = 4;

/// The time-out of the writer's answer.
const ANSWER_DEADLINE: Duration = Duration::from_secs(5);

/// A query to the writer, with the channel for its answer.
#[derive(Debug)]
pub enum Question {
    /// A summary of the state.
    Snapshot(oneshot::Sender<Snapshot>),
    /// Why an address or a name is in objects, or is not.
    Explain(Asked, oneshot::Sender<Explanation>),
    /// All names of `DNSResolver` objects.
    List(ListingQuery, oneshot::Sender<Listing>),
    /// The objects beside the statuses.
    Compare(oneshot::Sender<Comparison>),
}

/// The state of the writer.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// Whether this process writes.
    pub leader: bool,
    pub totals: Totals,
    /// At most 1,000. Those with faults come first.
    pub dns_resolvers: Vec<ResolverShown>,
    pub more_dns_resolvers: usize,
    /// How many of these others have faults.
    #[serde(skip)]
    pub more_with_faults: usize,
}

/// The status. Names come from tenants, so a reader must escape them.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    pub program: &'static str,
    pub version: &'static str,
    #[serde(flatten)]
    pub instance: Instance,
    /// The faults that need an administrator.
    #[serde(flatten)]
    pub problems: Problems,
    /// The conditions of readiness.
    pub conditions: Vec<Condition>,
    /// Objects that cannot be decoded, at most 100.
    pub bad_objects: Vec<BadObject>,
    #[serde(flatten)]
    pub snapshot: Snapshot,
}

/// The sources of the status, beside the writer.
#[derive(Clone, Debug, Default)]
pub struct StatusSources {
    pub instance: Instance,
    pub health: Health,
    pub bad_objects: BadObjects,
}

impl Status {
    fn new(snapshot: Snapshot, sources: &StatusSources) -> Self {
        let mut status = Self {
            program: PROGRAM,
            version: VERSION,
            instance: sources.instance.clone(),
            problems: Problems::default(),
            conditions: sources.health.conditions(),
            bad_objects: sources.bad_objects.list(),
            snapshot,
        };
        status.problems = status.find_problems();
        status
    }

    fn find_problems(&self) -> Problems {
        let mut problems = Problems::default();
        let docs = "dnsresolver.md#conditions";
        let conditions = self.conditions.iter();
        problems.extend(conditions.filter_map(|it| Problem::of_condition(it, docs)));
        problems.extend(self.bad_objects.iter().map(Problem::of_bad_object));
        for resolver in &self.snapshot.dns_resolvers {
            problems.extend(resolver.faults.iter().map(|fault| Problem {
                reason: "DNSResolver",
                subject: format!("{}/{}", resolver.namespace, resolver.name),
                words: fault.clone(),
                docs,
            }));
        }
        problems.add_unlisted(self.snapshot.more_with_faults);
        problems
    }
}

struct Inspector {
    writer: mpsc::Sender<Question>,
    sources: StatusSources,
    /// A query searches everything, and must not delay the writer.
    pacer: QueryPacer,
}

/// Answers until the token is cancelled.
///
/// # Errors
/// The errors of [`Inspect::serve`].
pub async fn serve(
    inspect: Inspect,
    writer: mpsc::Sender<Question>,
    sources: StatusSources,
    token: CancellationToken,
) -> anyhow::Result<()> {
    let inspector = Inspector {
        writer,
        sources,
        pacer: QueryPacer::default(),
    };
    let router = Router::new()
        .route("/status.json", get(status_json))
        .route("/explain.json", get(explain_json))
        .route("/dnsresolvers.json", get(dns_resolvers_json))
        .route("/verify.json", get(verify_json))
        .with_state(Arc::new(inspector));
    inspect.serve(router, token).await
}

async fn status_json(State(inspector): State<Arc<Inspector>>) -> Response {
    match inspector.ask(Question::Snapshot).await {
        Some(snapshot) => json(&Status::new(snapshot, &inspector.sources)),
        None => busy(PROGRAM),
    }
}

async fn explain_json(
    State(inspector): State<Arc<Inspector>>,
    RawQuery(query): RawQuery,
) -> Response {
    let explain = |asked: Asked| async move {
        let ask = |sender| Question::Explain(asked.clone(), sender);
        let mut told = inspector.ask(ask).await?;
        told.text = render_text::explanation(&told, &asked);
        Some(told)
    };
    explain::in_json(PROGRAM, query.as_deref(), explain).await
}

async fn dns_resolvers_json(
    State(inspector): State<Arc<Inspector>>,
    RawQuery(asked): RawQuery,
) -> Response {
    let [filter, namespace, after] = match query(asked.as_deref(), ["filter", "namespace", "after"])
    {
        Ok(values) => values,
        Err(error) => return error.into_response(),
    };
    let after = match after.map(|after| after.parse::<ObjectKey>()).transpose() {
        Ok(after) => after,
        Err(error) => return refusal(StatusCode::BAD_REQUEST, &format!("after: {error}")),
    };
    let query = ListingQuery {
        filter: filter.unwrap_or_default(),
        namespace,
        after,
    };
    let ask = |sender| Question::List(query, sender);
    match inspector.ask(ask).await {
        Some(listing) => json(&listing),
        None => busy(PROGRAM),
    }
}

async fn verify_json(State(inspector): State<Arc<Inspector>>) -> Response {
    match inspector.ask(Question::Compare).await {
        Some(mut told) => {
            told.text = render_text::comparison(&told);
            json(&told)
        }
        None => busy(PROGRAM),
    }
}

impl Inspector {
    /// `None` if the writer does not answer.
    async fn ask<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Question) -> Option<T> {
        let asked = self.pacer.ask(async {
            let (sender, told) = oneshot::channel();
            self.writer.send(question(sender)).await.ok()?;
            told.await.ok()
        });
        timeout(ANSWER_DEADLINE, asked).await.ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use runtime::listen::ListenAddress;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::UnixStream,
    };

    use super::*;

    #[tokio::test]
    async fn page_is_served_and_may_run_only_what_the_server_has() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("x.sock");
        let address = ListenAddress::Unix(socket.clone().into());
        let inspect = Inspect::bind(&address).await.unwrap();
        let (asked, _questions) = mpsc::channel(QUEUE);
        let (sources, token) = (StatusSources::default(), CancellationToken::new());
        let serving = tokio::spawn(serve(inspect, asked, sources, token.clone()));
        let mut stream = UnixStream::connect(&socket).await.unwrap();
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).await.unwrap();
        token.cancel();
        serving.await.unwrap().unwrap();
        let policy = "content-security-policy: default-src 'none'; script-src 'self'; ";
        assert!(page.contains(policy), "{page}");
        assert!(page.contains("<!DOCTYPE html>"), "{page}");
    }
}
