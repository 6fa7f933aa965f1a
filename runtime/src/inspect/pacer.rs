//! Pauses between expensive queries.

use std::time::Duration;

use tokio::{
    sync::Mutex,
    time::{Instant, sleep_until},
};

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
        let answer = ask.await;
        *next = Some(Instant::now() + BETWEEN);
        answer
    }
}
