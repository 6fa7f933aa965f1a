//! The watches of pods: one for each namespace with rules by name, or one for all namespaces if
//! there are too many of these.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{
    StreamExt,
    stream::{BoxStream, SelectAll},
};
use runtime::store::{Event, Scope};
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::pod::PodDns;

/// The most namespaces with a watch of their own, since each watch is a connection to the API
/// server.
pub(super) const MAX_WATCHES: usize = 512;

type Events = BoxStream<'static, (Scope, Event<PodDns>)>;

type Open = Box<dyn Fn(Scope) -> BoxStream<'static, Event<PodDns>> + Send>;

pub(super) struct PodWatches {
    open: Open,
    events: SelectAll<Events>,
    /// The namespaces with a watch of their own.
    namespaces: BTreeMap<String, CancellationToken>,
    /// Those whose pods were listed.
    listed: BTreeSet<String>,
    /// `Some` if one watch covers all namespaces, with whether their pods were listed.
    all: Option<bool>,
}

impl PodWatches {
    /// Without any watch.
    pub(super) fn new(
        open: impl Fn(Scope) -> BoxStream<'static, Event<PodDns>> + Send + 'static,
    ) -> Self {
        Self {
            open: Box::new(open),
            events: SelectAll::new(),
            namespaces: BTreeMap::new(),
            listed: BTreeSet::new(),
            all: None,
        }
    }

    /// Watches the pods of these namespaces. Returns those whose watches ended, unless the watch
    /// for all namespaces covers them.
    ///
    /// That watch stays until [`PodWatches::end`]. Otherwise a number of namespaces around the
    /// limit would cause one list after the other.
    pub(super) fn watch<T>(&mut self, namespaces: &BTreeMap<String, T>) -> Vec<String> {
        if self.all.is_some() {
            return Vec::new();
        }
        if namespaces.len() > MAX_WATCHES {
            info!(
                namespaces = namespaces.len(),
                limit = MAX_WATCHES,
                "more namespaces than the limit have rules by name: one watch of the pods of all namespaces replaces the watches of each"
            );
            self.end();
            self.all = Some(false);
            self.open(Scope::All, CancellationToken::new());
            return Vec::new();
        }
        let is_over = |name: &String, _: &mut _| !namespaces.contains_key(name);
        let mut ended = Vec::new();
        for (name, token) in self.namespaces.extract_if(.., is_over) {
            token.cancel();
            self.listed.remove(&name);
            ended.push(name);
        }
        for name in namespaces.keys() {
            if !self.namespaces.contains_key(name) {
                let token = CancellationToken::new();
                self.namespaces.insert(name.clone(), token.clone());
                self.open(Scope::Namespace(name.clone()), token);
            }
        }
        ended
    }

    fn open(&mut self, scope: Scope, until: CancellationToken) {
        let events = (self.open)(scope.clone());
        let events = events.map(move |event| (scope.clone(), event));
        let events = events.take_until(until.cancelled_owned());
        self.events.push(events.boxed());
    }

    pub(super) fn end(&mut self) {
        self.events = SelectAll::new();
        self.namespaces.clear();
        self.listed.clear();
        self.all = None;
    }

    /// The next event; `None` while there is no watch.
    pub(super) async fn next(&mut self) -> Option<(Scope, Event<PodDns>)> {
        let (scope, event) = self.events.next().await?;
        if matches!(event, Event::Synced(_)) {
            match &scope {
                Scope::Namespace(namespace) => {
                    self.listed.insert(namespace.clone());
                }
                Scope::All => self.all = Some(true),
            }
        }
        Some((scope, event))
    }

    /// Whether the pods of all namespaces with rules were listed.
    pub(super) fn is_complete(&self) -> bool {
        let each = self.listed.len() == self.namespaces.len();
        self.all.unwrap_or(each)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use futures_util::stream;

    use super::*;

    /// Watches that list no pods and then wait, and the scopes of those that began.
    fn watches() -> (PodWatches, Arc<Mutex<Vec<String>>>) {
        let begun: Arc<Mutex<Vec<String>>> = Arc::default();
        let opened = Arc::clone(&begun);
        let watches = PodWatches::new(move |scope| {
            opened.lock().unwrap().push(scope.to_string());
            stream::iter([Event::Synced(Vec::new())])
                .chain(stream::pending())
                .boxed()
        });
        (watches, begun)
    }

    fn namespaces(count: usize) -> BTreeMap<String, ()> {
        (0..count).map(|i| (format!("team-{i:05}"), ())).collect()
    }

    async fn list(watches: &mut PodWatches, count: usize) {
        for _ in 0..count {
            assert!(!watches.is_complete());
            watches.next().await.unwrap();
        }
        assert!(watches.is_complete());
    }

    #[tokio::test]
    async fn each_namespace_with_rules_has_a_watch_that_ends_with_its_rules() {
        let (mut watches, begun) = watches();
        assert!(watches.is_complete(), "there is nothing to list");
        assert_eq!(watches.watch(&namespaces(3)), [""; 0]);
        list(&mut watches, 3).await;
        assert_eq!(watches.watch(&namespaces(2)), ["team-00002"]);
        assert!(watches.is_complete());
        watches.watch(&namespaces(3));
        list(&mut watches, 1).await;
        let begun = begun.lock().unwrap();
        assert_eq!(
            *begun,
            ["team-00000", "team-00001", "team-00002", "team-00002"]
        );
    }

    #[tokio::test]
    async fn one_watch_of_all_namespaces_takes_the_place_of_too_many() {
        let (mut watches, begun) = watches();
        watches.watch(&namespaces(MAX_WATCHES));
        list(&mut watches, MAX_WATCHES).await;
        assert_eq!(watches.watch(&namespaces(MAX_WATCHES + 1)), [""; 0]);
        list(&mut watches, 1).await;
        // It stays, whatever the rules are, until this collector leads again.
        assert_eq!(watches.watch(&namespaces(10_000)), [""; 0]);
        assert_eq!(watches.watch(&namespaces(1)), [""; 0]);
        assert!(watches.is_complete());
        assert_eq!(begun.lock().unwrap()[MAX_WATCHES..], ["*"]);
        watches.end();
        watches.watch(&namespaces(1));
        list(&mut watches, 1).await;
        assert_eq!(begun.lock().unwrap().last().unwrap(), "team-00000");
    }
}
