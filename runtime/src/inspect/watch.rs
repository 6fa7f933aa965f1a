//! `/watch`: events as they happen, as lines of JSON. A program without a subscriber makes no events.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    body::Body,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use futures_util::Stream;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, broadcast},
    time::interval,
};

use super::refusal;
use crate::http::Exchange;

/// The most subscribers at once.
const MOST: usize = 4;

/// The events that wait for the slowest subscriber.
const QUEUE: usize = 1024;

/// The interval of lines with the program's state. By them a subscriber notices a lost connection.
const STATE_INTERVAL: Duration = Duration::from_secs(1);

/// The longest time of a subscription; the subscriber may begin a new one.
const LONGEST: Duration = Duration::from_secs(3600);

/// The subscribers of events. Clones share them.
#[derive(Debug)]
pub struct WatchSubscribers<T> {
    events: broadcast::Sender<Arc<T>>,
    room: Arc<Semaphore>,
}

/// A subscription.
#[derive(Debug)]
pub struct Subscription<T> {
    events: broadcast::Receiver<Arc<T>>,
    _room: OwnedSemaphorePermit,
}

impl<T> Clone for WatchSubscribers<T> {
    fn clone(&self) -> Self {
        Self {
            events: self.events.clone(),
            room: Arc::clone(&self.room),
        }
    }
}

impl<T> Default for WatchSubscribers<T> {
    fn default() -> Self {
        Self {
            events: broadcast::Sender::new(QUEUE),
            room: Arc::new(Semaphore::new(MOST)),
        }
    }
}

impl<T> WatchSubscribers<T> {
    /// Begins a subscription; `None` if there are four.
    pub fn open(&self) -> Option<Subscription<T>> {
        let room = Arc::clone(&self.room).try_acquire_owned().ok()?;
        Some(Subscription {
            events: self.events.subscribe(),
            _room: room,
        })
    }

    /// Whether there is a subscriber. Without one, an event need not be made.
    pub fn is_open(&self) -> bool {
        self.room.available_permits() < MOST
    }

    /// Passes an event to the subscribers. Never waits: a slow subscriber loses the oldest events.
    pub fn offer(&self, event: T) {
        // Without a subscriber the event is dropped.
        let _subscribers = self.events.send(Arc::new(event));
    }
}

impl<T: Send + Sync + 'static> WatchSubscribers<T> {
    /// Answers a request with the lines of a new subscription, each a JSON text. `state` gets the number of events that
    /// the subscriber lost; its line is the first one, and follows every second.
    pub fn answer(
        &self,
        exchange: &Exchange,
        state: impl Fn(u64) -> serde_json::Result<String> + Send + 'static,
        line: impl Fn(&T) -> serde_json::Result<String> + Send + 'static,
    ) -> Response {
        let Some(subscription) = self.open() else {
            let words = format!("{MOST} programs watch already: try again when one has ended");
            return refusal(StatusCode::SERVICE_UNAVAILABLE, &words);
        };
        exchange.last(LONGEST);
        let body = Body::from_stream(lines(subscription, state, line));
        ([(CONTENT_TYPE, "application/x-ndjson")], body).into_response()
    }
}

impl<T> Subscription<T> {
    /// The next event, or the number of events that were lost before it; `None` once no more can come. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<Arc<T>, u64>> {
        match self.events.recv().await {
            Ok(event) => Some(Ok(event)),
            Err(broadcast::error::RecvError::Lagged(lost)) => Some(Err(lost)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

fn lines<T>(
    mut subscription: Subscription<T>,
    state: impl Fn(u64) -> serde_json::Result<String>,
    line: impl Fn(&T) -> serde_json::Result<String>,
) -> impl Stream<Item = Result<String, Infallible>> {
    async_stream::stream! {
        let (mut lost, mut times) = (0, interval(STATE_INTERVAL));
        loop {
            let text = tokio::select! {
                biased;
                _ = times.tick() => state(lost),
                event = subscription.next() => match event {
                    Some(Ok(event)) => line(&event),
                    Some(Err(more)) => {
                        lost += more;
                        continue;
                    }
                    None => break,
                },
            };
            match text {
                Ok(text) => yield Ok(text + "\n"),
                Err(error) => {
                    tracing::warn!(%error, "an event has no JSON form: the subscription ends");
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::StreamExt;

    use super::*;

    #[test]
    fn there_are_four_subscribers_at_most_and_one_that_ends_makes_room() {
        let subscribers = WatchSubscribers::<u32>::default();
        assert!(!subscribers.is_open());
        let mut open: Vec<_> = (0..MOST).map(|_| subscribers.open().unwrap()).collect();
        assert!(subscribers.open().is_none() && subscribers.is_open());
        open.pop();
        assert!(subscribers.open().is_some());
        drop(open);
        assert!(!subscribers.is_open());
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_subscriber_loses_events_learns_how_many_and_delays_none() {
        let subscribers = WatchSubscribers::default();
        let [slow, fast] = [(); 2].map(|()| subscribers.open().unwrap());
        let states = |lost| Ok(format!("lost {lost}"));
        let line = |event: &usize| Ok(event.to_string());
        let (mut slow, mut fast) = (
            pin!(lines(slow, states, line)),
            pin!(lines(fast, states, line)),
        );
        assert_eq!(fast.next().await.unwrap().unwrap(), "lost 0\n");
        for event in 0..QUEUE + 10 {
            subscribers.offer(event);
            assert_eq!(fast.next().await.unwrap().unwrap(), format!("{event}\n"));
        }
        assert_eq!(slow.next().await.unwrap().unwrap(), "lost 0\n");
        for event in 10..QUEUE + 10 {
            assert_eq!(slow.next().await.unwrap().unwrap(), format!("{event}\n"));
        }
        // Time passes only while no event is left.
        assert_eq!(slow.next().await.unwrap().unwrap(), "lost 10\n");
        assert_eq!(fast.next().await.unwrap().unwrap(), "lost 0\n");
    }
}
