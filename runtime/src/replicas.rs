//! The replicas of a program that live, and what each tells the others.
//!
//! All of them patch one Lease of `coordination.k8s.io/v1`, each an annotation of its own, and the answer to that shows those of the
//! others. Nobody's clock is trusted: who was not seen to change its annotation for `MISSED` looks is gone. While the API server
//! is away there are no looks, and all stay.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};
use uuid::Uuid;

use crate::cluster::{Cluster, Refusal};

/// How often a replica looks, and shows that it lives.
const PERIOD: Duration = Duration::from_secs(5);

/// With many replicas less often: so much for each.
const PERIOD_OF_EACH: Duration = Duration::from_millis(100);

/// What has changed is told after so long at the earliest.
const PAUSE: Duration = Duration::from_secs(1);

/// Looks at an annotation that did not change until its replica is gone.
const MISSED: u32 = 4;

/// Looks until it is removed.
const FORGOTTEN: u32 = 200;

/// How long the farewell may take.
const FAREWELL: Duration = Duration::from_secs(1);

/// How the names of the annotations begin; what follows is the replica's.
const PREFIX: &str = "dnsnameresolver.network.openshift.io/replica-";

/// As many others are believed.
const MAX_REPLICAS: usize = 1_000;

/// What the others that live tell, by what they are known.
pub type Others = Arc<BTreeMap<String, String>>;

/// One of the replicas.
pub struct Replicas {
    cluster: Cluster,
    namespace: String,
    lease: String,
    id: String,
    beat: u64,
    seen: Seen,
    others: watch::Sender<Others>,
    /// The last request failed, and that was said.
    said: bool,
}

impl Replicas {
    /// A new one of those that share the Lease `NAME-replicas` of a namespace.
    pub fn new(cluster: &Cluster, namespace: &str, name: &str) -> Self {
        let id = Uuid::new_v4().simple().to_string();
        Self {
            cluster: cluster.clone(),
            namespace: namespace.to_owned(),
            lease: format!("{name}-replicas"),
            id: id.chars().take(12).collect(),
            beat: 0,
            seen: Seen::default(),
            others: watch::Sender::default(),
            said: false,
        }
    }

    /// By what the others know it.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The others.
    pub fn others(&self) -> watch::Receiver<Others> {
        self.others.subscribe()
    }

    /// Tells the others the text, and what it changes to, until the token is cancelled.
    ///
    /// # Errors
    /// None: what goes wrong is logged and tried again.
    pub async fn run(
        mut self,
        mut text: watch::Receiver<String>,
        token: CancellationToken,
    ) -> anyhow::Result<()> {
        let rounds = async {
            loop {
                let began = Instant::now();
                let said = text.borrow_and_update().clone();
                let told = self.tell(Some(&said)).await;
                self.say(told.err());
                let count = u32::try_from(self.others.borrow().len()).unwrap_or(u32::MAX);
                let period = PERIOD.max(PERIOD_OF_EACH.saturating_mul(count));
                tokio::select! {
                    () = sleep_until(began + period) => {}
                    Ok(()) = text.changed() => sleep_until(began + PAUSE).await,
                }
            }
        };
        token.run_until_cancelled(rounds).await;
        // So that the others need not wait.
        if let Ok(Err(refusal)) = timeout(FAREWELL, self.tell(None)).await {
            debug!("the other replicas are not told of the end: {refusal}");
        }
        Ok(())
    }

    /// Writes the annotation, or removes it, and reads those of the others.
    async fn tell(&mut self, text: Option<&str>) -> Result<(), Refusal> {
        self.beat += 1;
        let value = text.map(|text| format!("{} {text}", self.beat));
        let key = format!("{PREFIX}{}", self.id);
        let mut annotations = serde_json::Map::new();
        for id in self.seen.forgotten() {
            annotations.insert(format!("{PREFIX}{id}"), json!(null));
        }
        annotations.insert(key.clone(), json!(value));
        let requests = Cluster::requests::<Lease>(&self.namespace);
        let patch = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
        let request = requests.patch(&self.lease, &PatchParams::default(), &patch);
        let lease = match (self.cluster.send::<Lease>(request).await, value) {
            (Err(Refusal::NotFound(_)), Some(value)) => {
                let lease = Lease {
                    metadata: ObjectMeta {
                        name: Some(self.lease.clone()),
                        annotations: Some([(key, value)].into()),
                        ..ObjectMeta::default()
                    },
                    spec: None,
                };
                let body = serde_json::to_vec(&lease);
                let body = body.map_err(|error| Refusal::Invalid(error.to_string()))?;
                let params = PostParams {
                    dry_run: false,
                    field_manager: Some(self.cluster.manager().to_owned()),
                };
                self.cluster.send(requests.create(&params, body)).await?
            }
            (lease, _) => lease?,
        };
        let found = lease.metadata.annotations.unwrap_or_default();
        let found = found.into_iter().filter_map(|(key, value)| {
            let id = key.strip_prefix(PREFIX).filter(|id| *id != self.id)?;
            Some((id.to_owned(), value))
        });
        self.seen.look(found.take(MAX_REPLICAS).collect());
        let live = self.seen.live();
        self.others.send_if_modified(|others| {
            let is_new = **others != live;
            if is_new {
                *others = Arc::new(live);
            }
            is_new
        });
        Ok(())
    }

    fn say(&mut self, failed: Option<Refusal>) {
        match &failed {
            Some(reason) if !self.said => {
                warn!("the other replicas cannot be told, or read, for now: {reason}");
            }
            Some(reason) => debug!("the other replicas cannot be told: {reason}"),
            None => {}
        }
        self.said = failed.is_some();
    }
}

/// The annotations of the others, and for how many looks they have not changed.
#[derive(Default)]
struct Seen(BTreeMap<String, (String, u32)>);

impl Seen {
    fn look(&mut self, found: BTreeMap<String, String>) {
        let before = std::mem::take(&mut self.0);
        let age = |id: &String, value: &String| {
            let same = before.get(id).filter(|(before, _)| before == value);
            same.map_or(0, |(_, age)| age.saturating_add(1))
        };
        let found = found.into_iter();
        self.0 = found
            .map(|(id, value)| {
                let age = age(&id, &value);
                (id, (value, age))
            })
            .collect();
    }

    /// What those tell that live.
    fn live(&self) -> BTreeMap<String, String> {
        let live = self.0.iter().filter(|(_, (_, age))| *age < MISSED);
        live.filter_map(|(id, (value, _))| {
            let (_beat, text) = value.split_once(' ')?;
            Some((id.clone(), text.to_owned()))
        })
        .collect()
    }

    fn forgotten(&self) -> Vec<String> {
        let forgotten = self.0.iter().filter(|(_, (_, age))| *age >= FORGOTTEN);
        forgotten.map(|(id, _)| id.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(seen: &mut Seen, found: &[(&str, &str)]) -> Vec<String> {
        let found = found.iter();
        seen.look(
            found
                .map(|(id, value)| ((*id).to_owned(), (*value).to_owned()))
                .collect(),
        );
        let live = seen.live().into_iter();
        live.map(|(id, text)| format!("{id}={text}")).collect()
    }

    #[test]
    fn who_does_not_change_is_gone_and_is_back_when_it_does() {
        let mut seen = Seen::default();
        for _ in 0..MISSED {
            assert_eq!(look(&mut seen, &[("a", "1 x y"), ("bad", "3")]), ["a=x y"]);
        }
        assert_eq!(look(&mut seen, &[("a", "1 x y")]), [""; 0]);
        assert_eq!(look(&mut seen, &[("a", "2 x y")]), ["a=x y"]);
        assert_eq!(look(&mut seen, &[]), [""; 0]);
    }

    #[test]
    fn who_is_gone_for_long_is_removed() {
        let mut seen = Seen::default();
        for _ in 0..FORGOTTEN {
            look(&mut seen, &[("a", "1 x")]);
            assert!(seen.forgotten().is_empty());
        }
        look(&mut seen, &[("a", "1 x")]);
        assert_eq!(seen.forgotten(), ["a"]);
    }
}
