//! `--inspect`: the state, for administrators and for the program `egress`.

use std::sync::Arc;

use axum::{
    Router,
    extract::{RawQuery, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use parking_lot::Mutex;
use runtime::{
    admin::Health,
    inspect::{
        Inspect,
        explain::{self, QueryPacer},
        json, query, refusal,
    },
    instance::Instance,
    store::{BadObjects, ObjectKey},
};
use tokio_util::sync::CancellationToken;

use crate::{
    PROGRAM,
    facts::{self, Status},
    plan::Planner,
    writer::now,
};

/// Answers queries about the state.
pub struct Inspector {
    planner: Arc<Mutex<Planner>>,
    instance: Instance,
    health: Health,
    bad_objects: BadObjects,
    /// A query searches everything, and must not delay the writer.
    pacer: QueryPacer,
}

impl Inspector {
    /// Answers about this state.
    pub fn new(
        planner: Arc<Mutex<Planner>>,
        instance: Instance,
        health: Health,
        bad_objects: BadObjects,
    ) -> Self {
        Self {
            planner,
            instance,
            health,
            bad_objects,
            pacer: QueryPacer::default(),
        }
    }

    /// Answers until the token is cancelled.
    ///
    /// # Errors
    /// The errors of [`Inspect::serve`].
    pub async fn serve(self, inspect: Inspect, token: CancellationToken) -> anyhow::Result<()> {
        let router = Router::new()
            .route("/status.json", get(status_json))
            .route("/explain.json", get(explain_json))
            .route("/dnsresolvers.json", get(dns_resolvers_json))
            .route("/verify.json", get(verify_json))
            .with_state(Arc::new(self));
        inspect.serve(router, token).await
    }

    async fn ask<T>(&self, question: impl FnOnce(&Planner) -> T) -> T {
        let answer = async { question(&self.planner.lock()) };
        self.pacer.ask(answer).await
    }
}

async fn status_json(State(it): State<Arc<Inspector>>) -> Response {
    let instance = it.instance.clone();
    let status = |planner: &Planner| Status::new(planner, instance, &it.health, &it.bad_objects);
    json(&it.ask(status).await)
}

async fn explain_json(State(it): State<Arc<Inspector>>, RawQuery(query): RawQuery) -> Response {
    let explain = |asked| async move {
        let told = it
            .ask(|planner| facts::explain(planner, &asked, now()))
            .await;
        Some(told)
    };
    explain::in_json(PROGRAM, query.as_deref(), explain).await
}

async fn dns_resolvers_json(
    State(it): State<Arc<Inspector>>,
    RawQuery(asked): RawQuery,
) -> Response {
    let asked = query(asked.as_deref(), ["filter", "namespace", "after"]);
    let [filter, namespace, after] = match asked {
        Ok(values) => values,
        Err(error) => return error.into_response(),
    };
    let after = match after.map(|after| after.parse::<ObjectKey>()).transpose() {
        Ok(after) => after,
        Err(error) => return refusal(StatusCode::BAD_REQUEST, &format!("after: {error}")),
    };
    let (filter, namespace) = (filter.unwrap_or_default(), namespace.as_deref());
    let list = |planner: &Planner| facts::list(planner, &filter, namespace, after.as_ref());
    json(&it.ask(list).await)
}

async fn verify_json(State(it): State<Arc<Inspector>>) -> Response {
    json(&it.ask(|planner| facts::compare(planner, now())).await)
}
