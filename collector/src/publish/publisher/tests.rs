mod absence;
mod evictions;
mod facts;
mod gap_backfill;
mod guards;
mod held;
mod kube_ovn;
mod listing;
pub(crate) mod lookup;
mod namespace_caps;
mod objects;
mod share;
mod sources;
mod take_over;
mod view;
mod write;
mod writes;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use kube::ResourceExt;
use proto::api::{DnsName, DnsNameResolver, Family};
use runtime::{
    clock::Timestamp,
    store::{Event, ObjectKey},
};

use super::{Config, Publisher};
use crate::{
    matching::answer_cache::AnswerCache,
    publish::{
        ManageObjects, ObjectPolicy, Shared,
        write::{Write, WriteOutcome},
    },
    rules::{ChangedUses, RetentionPolicy, RuleChanges, Source, Wanted, WantedName},
};
use names::{Limits, Observation};

pub(crate) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000 + millis)
}

pub(crate) fn name(text: &str) -> DnsName {
    DnsName::parse(text).unwrap()
}

pub(crate) fn answer(asked: &str, ip: &str, millis: i64) -> Observation {
    Observation {
        name: name(asked),
        family: Family::V4,
        addresses: [(ip.parse().unwrap(), 30)].into_iter().collect(),
        at: at(millis),
        server_time: None,
        answered_at: at(millis),
        client: None,
        truncated: false,
        source: names::Provenance::STREAM,
    }
}

/// The names in use, with this `retain` in seconds.
pub(crate) fn wanted(names: &[&str], retain: u64) -> Wanted {
    let seconds = Duration::from_secs;
    let retention = RetentionPolicy {
        grace: seconds(5),
        min_ttl: seconds(5),
        retain: seconds(retain),
        allowed: true,
        ..RetentionPolicy::default()
    };
    let in_use = Arc::new(WantedName {
        retention,
        ..WantedName::default()
    });
    let names = names.iter().map(|text| (name(text), Arc::clone(&in_use)));
    Wanted {
        names: names.collect(),
        in_sync: true,
        ..Wanted::default()
    }
}

impl Wanted {
    /// The use of a name, to be changed.
    pub(crate) fn name_mut(&mut self, name: &DnsName) -> &mut WantedName {
        Arc::make_mut(self.names.entry(name.clone()).or_default())
    }

    /// What makes this one of `before`.
    fn changes(self, before: &Self, source: Source) -> RuleChanges {
        let names: BTreeSet<_> = before.names.keys().chain(self.names.keys()).collect();
        let known = &before.names_of_namespaces;
        let namespaces: BTreeSet<_> = known
            .keys()
            .chain(self.names_of_namespaces.keys())
            .collect();
        let uses = ChangedUses {
            names: names
                .into_iter()
                .map(|name| (name.clone(), self.names.get(name).cloned()))
                .collect(),
            namespaces: namespaces
                .into_iter()
                .map(|it| (*it, self.names_of_namespaces.get(it).cloned()))
                .collect(),
        };
        RuleChanges {
            source,
            uses,
            in_sync: self.in_sync,
            has_failed: self.has_failed,
        }
    }
}

impl Publisher {
    /// The names of the EgressFirewalls are these, and no others.
    pub(crate) fn set_rules(&mut self, wanted: Wanted, now: Timestamp) {
        self.set_rules_of(Source::EgressFirewall, wanted, now);
    }

    pub(crate) fn set_rules_of(&mut self, source: Source, wanted: Wanted, now: Timestamp) {
        let before = self.rules.of_source(source);
        self.apply_rules(wanted.changes(&before, source), now);
    }
}

/// A publisher, and a store that carries out its writes when the test says so.
pub(crate) struct World {
    pub(crate) config: Config,
    pub(crate) publisher: Publisher,
    pub(crate) remembered: AnswerCache,
    pub(crate) store: BTreeMap<ObjectKey, DnsNameResolver>,
    versions: u64,
    pub(crate) now: i64,
    /// The store refuses a status of more bytes of JSON.
    pub(crate) takes: usize,
}

impl World {
    pub(crate) fn new(manage_objects: ManageObjects) -> Self {
        Self::with(manage_objects, |_| {})
    }

    pub(crate) fn with(manage_objects: ManageObjects, change: impl FnOnce(&mut Config)) -> Self {
        let remembered = AnswerCache::new(64, names::MAX_TTL);
        let mut config = Config {
            objects: ObjectPolicy::of_egress_firewalls("ovn", manage_objects),
            limits: Limits {
                lookups: false,
                ..Limits::default()
            },
            shared: Shared {
                remembered: remembered.clone(),
                ..Shared::default()
            },
            ..Config::default()
        };
        change(&mut config);
        let mut world = Self {
            publisher: Publisher::new(config.clone()),
            config,
            remembered,
            store: BTreeMap::new(),
            versions: 0,
            now: 0,
            takes: usize::MAX,
        };
        world.publisher.set_leads(true, at(0));
        world.event(Event::Synced(Vec::new()));
        world
    }

    /// The watch of the EgressFirewalls' objects has an event.
    pub(crate) fn event(&mut self, event: Event<DnsNameResolver>) {
        let now = at(self.now);
        self.publisher
            .apply_event(Source::EgressFirewall, event, now);
    }

    pub(crate) fn want(&mut self, names: &[&str]) {
        self.publisher.set_rules(wanted(names, 0), at(self.now));
    }

    pub(crate) fn observe(&mut self, asked: &str, ip: &str) {
        self.observe_as(asked, ip, None);
    }

    pub(crate) fn observe_as(&mut self, asked: &str, ip: &str, client: Option<&str>) {
        let mut observation = answer(asked, ip, self.now);
        observation.client = client.map(|client| client.parse().unwrap());
        self.publisher.apply_answer(&observation);
    }

    fn version(&mut self, mut object: DnsNameResolver) -> DnsNameResolver {
        self.versions += 1;
        object.metadata.resource_version = Some(self.versions.to_string());
        object
    }

    /// Puts an object into the store as another writer.
    pub(crate) fn put(&mut self, mut object: DnsNameResolver) -> DnsNameResolver {
        let namespace = &mut object.metadata.namespace;
        namespace.get_or_insert_with(|| "ovn".to_owned());
        object
            .metadata
            .uid
            .get_or_insert_with(|| format!("uid-{}", self.versions));
        let object = self.version(object);
        self.store.insert(ObjectKey::of(&object), object.clone());
        object
    }

    pub(crate) fn carry_out(&mut self, write: &Write) -> WriteOutcome {
        let key = write.key();
        if let Write::Status(object) = write
            && serde_json::to_vec(&object.status).unwrap().len() > self.takes
        {
            return WriteOutcome::TooLarge;
        }
        match (write, self.store.get(&key).cloned()) {
            (Write::Status(object), Some(stored))
                if stored.resource_version() == object.resource_version() =>
            {
                let status = object.status.clone();
                WriteOutcome::Stored(Box::new(self.put(DnsNameResolver { status, ..stored })))
            }
            (Write::Create(object), None) => {
                WriteOutcome::Stored(Box::new(self.put(object.as_ref().clone())))
            }
            (Write::Delete(_, precondition), Some(stored))
                if stored.resource_version() == precondition.resource_version =>
            {
                self.store.remove(&key);
                WriteOutcome::Gone
            }
            (_, Some(stored)) => WriteOutcome::Conflict(Box::new(stored)),
            (_, None) => WriteOutcome::Gone,
        }
    }

    /// The store carries out these writes.
    pub(crate) fn store_all(&mut self, writes: &[Write]) {
        for write in writes {
            let outcome = self.carry_out(write);
            self.publisher
                .apply_written(&write.key(), write, outcome, at(self.now));
        }
    }

    /// Carries out writes until there are none; returns how many there were.
    pub(crate) fn settle(&mut self) -> usize {
        let (mut count, mut waits) = (0, 0);
        let most = 100 + 2 * self.publisher.names.len();
        loop {
            self.publisher.advance(at(self.now));
            self.publisher.recall(at(self.now));
            let writes = self.publisher.writes(at(self.now));
            if writes.is_empty() {
                // Writes of one object are a few milliseconds apart.
                match self.publisher.next_wake() {
                    Some(wake) if wake <= at(self.now + 5) && waits < 2 => {
                        self.now += 5;
                        waits += 1;
                    }
                    _ => return count,
                }
            }
            let keys: BTreeSet<_> = writes.iter().map(Write::key).collect();
            assert_eq!(keys.len(), writes.len(), "two writes of an object");
            count += writes.len();
            assert!(count < most, "it does not settle: {writes:?}");
            self.store_all(&writes);
        }
    }

    /// Settles, and waits for the deletion of objects without a rule.
    pub(crate) fn settle_deletions(&mut self) -> usize {
        let written = self.settle();
        self.now += 600_000;
        written + self.settle()
    }

    pub(crate) fn addresses(&self) -> Vec<String> {
        let text = |object: &DnsNameResolver| {
            let entries = object
                .status
                .iter()
                .flat_map(|status| &status.resolved_names);
            let addresses = entries.flat_map(|entry| {
                entry
                    .resolved_addresses
                    .iter()
                    .map(|address| address.ip.clone())
            });
            format!(
                "{} {}",
                object.spec.name,
                addresses.collect::<Vec<_>>().join(" ")
            )
            .trim_end()
            .to_owned()
        };
        let mut all: Vec<_> = self.store.values().map(text).collect();
        all.sort();
        all
    }
}

#[test]
fn expired_addresses_leave_store_and_unused_names_memory() {
    let mut world = World::new(ManageObjects::Auto);
    world.want(&["www.example.com"]);
    world.observe("www.example.com", "1.1.1.1");
    world.settle();
    assert_eq!(world.publisher.next_wake(), Some(at(35_000)));
    world.now = 35_000;
    world.settle();
    assert_eq!(world.addresses(), ["www.example.com."]);
    assert_eq!(world.publisher.next_wake(), None);
    world.want(&[]);
    world.settle_deletions();
    assert!(world.publisher.names.is_empty());
}

#[test]
fn index_has_names_in_use_and_names_of_objects() {
    let wants = |world: &mut World, asked: &str| {
        let index = world.publisher.take_index().unwrap();
        index
            .find(&proto::dns::Name::from_text(asked).unwrap())
            .is_some()
    };
    let mut world = World::new(ManageObjects::Never);
    world.want(&["www.example.com"]);
    assert!(wants(&mut world, "www.example.com"));
    assert!(world.publisher.take_index().is_none());
    let foreign = DnsNameResolver::new(
        "foreign",
        proto::api::DnsNameResolverSpec {
            name: "*.example.net.".to_owned(),
        },
    );
    let foreign = world.put(foreign);
    world.event(Event::Applied(foreign));
    assert!(wants(&mut world, "a.example.net"));
}
