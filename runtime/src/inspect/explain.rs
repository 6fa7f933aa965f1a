//! `/explain.json`: why an address is open, or is not.

use std::time::Duration;

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use tokio::{
    sync::Mutex,
    time::{Instant, sleep_until},
};

use super::{Asked, QueryError, busy, json, query, refusal};

/// The pause between two queries that search everything, since they run in a task that has to be fast.
const BETWEEN: Duration = Duration::from_millis(50);

/// Spaces out expensive queries.
#[derive(Debug, Default)]
pub struct QueryPacer(Mutex<Option<Instant>>);

impl QueryPacer {
    /// Runs the query when its turn comes.
    pub async fn ask<T>(&self, ask: impl Future<Output = T>) -> T {
        let mut next = self.0.lock().await;
        if let Some(next) = *next {
            sleep_until(next).await;
        }
        let told = ask.await;
        *next = Some(Instant::now() + BETWEEN);
        told
    }
}

/// Answers a query in JSON. `explain` returns `None` if the task that has the data does not reply.
pub async fn in_json<E: Serialize, F: Future<Output = Option<E>>>(
    program: &str,
    query: Option<&str>,
    explain: impl FnOnce(Asked) -> F,
) -> Response {
    match asked(query) {
        Ok(Some(asked)) => match explain(asked).await {
            Some(explanation) => json(&explanation),
            None => busy(program),
        },
        Ok(None) => refusal(
            StatusCode::BAD_REQUEST,
            "say what: ?about=NAME or ?about=ADDRESS",
        ),
        Err(error) => error.into_response(),
    }
}

/// The query; `None` if it has no subject.
fn asked(text: Option<&str>) -> Result<Option<Asked>, QueryError> {
    let [about, namespace] = query(text, ["about", "namespace"])?;
    Ok(about.map(|about| Asked::new(&about, namespace)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_asks_waits_for_its_turn_and_a_moment_after_the_last() {
        let (pacer, start) = (QueryPacer::default(), Instant::now());
        let takes = Duration::from_millis(30);
        let ask = || pacer.ask(async { tokio::time::sleep(takes).await });
        tokio::join!(ask(), ask(), ask());
        assert_eq!(start.elapsed(), 3 * takes + 2 * BETWEEN);
    }

    #[tokio::test]
    async fn a_query_is_answered_asked_for_or_refused() {
        let nothing = |_| async { None::<Vec<String>> };
        for (query, expected) in [
            (Some("about=a.b"), StatusCode::SERVICE_UNAVAILABLE),
            (None, StatusCode::BAD_REQUEST),
            (Some(&*"x".repeat(10_000)), StatusCode::URI_TOO_LONG),
        ] {
            assert_eq!(in_json("x", query, nothing).await.status(), expected);
        }
    }
}
