//! A store in memory, a clock, and a planner whose jobs are carried out at once.

mod store;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::{
    api::networking::v1::NetworkPolicy,
    apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta},
};
use proto::api::{
    DnsName, DnsNameResolver, DnsResolver, DnsResolverStatus, IpMap, NetworkSet, NetworkSetSpec,
    object_name,
};
use runtime::store::{Event, ObjectKey};
use serde_json::{Value, json};

use self::store::listed;
use super::super::{ownership::controller_reference, *};

const NAMESPACE: &str = "team-a";

/// `NAME`, or `NAMESPACE/NAME`.
pub(crate) fn key(name: &str) -> ObjectKey {
    let (namespace, name) = name.split_once('/').unwrap_or((NAMESPACE, name));
    ObjectKey {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

/// The objects of one kind.
pub(crate) type Stored<K> = BTreeMap<ObjectKey, K>;

pub(crate) struct World {
    pub(crate) planner: Planner,
    options: Options,
    start: Instant,
    passed: Duration,
    version: u64,
    names: Stored<DnsNameResolver>,
    resolvers: Stored<DnsResolver>,
    policies: Stored<NetworkPolicy>,
    maps: Stored<IpMap>,
    pub(crate) sets: Stored<NetworkSet>,
    /// Writes of objects, without statuses.
    pub(crate) writes: usize,
    /// Attempts to write statuses.
    pub(crate) status_writes: usize,
    /// The kinds of which the store refuses every write.
    pub(crate) refuses: BTreeSet<Output>,
    /// The kinds that cannot be listed.
    pub(crate) unread: BTreeSet<Output>,
    reports: Vec<Report>,
}

impl World {
    pub(crate) fn new() -> Self {
        let options = Options {
            filter: Filter::default(),
            label_prefix: Some("egress.example.com/".to_owned()),
            dns: None,
        };
        let start = Instant::now();
        let mut world = Self {
            planner: Planner::new(options.clone()),
            options,
            start,
            passed: Duration::ZERO,
            version: 0,
            names: BTreeMap::new(),
            resolvers: BTreeMap::new(),
            policies: BTreeMap::new(),
            maps: BTreeMap::new(),
            sets: BTreeMap::new(),
            writes: 0,
            status_writes: 0,
            refuses: BTreeSet::new(),
            unread: BTreeSet::new(),
            reports: Vec::new(),
        };
        world.restart();
        world
    }

    /// One resolver whose first name is answered, written.
    pub(crate) fn ready(name: &str, spec: Value, addresses: &[&str]) -> Self {
        let mut world = Self::new();
        let first = spec["domainList"][0].as_str().unwrap().to_owned();
        world.resolver(name, spec);
        world.name(&format!("{}.", first.trim_end_matches('.')), addresses);
        world.pass(FIRST);
        assert!(world.policy(name).is_some());
        world
    }

    pub(crate) fn now(&self) -> Now {
        Now {
            instant: self.start + self.passed,
            time: Timestamp::from_millis(1_767_225_600_000) + self.passed,
        }
    }

    /// The process ends, and another one begins.
    pub(crate) fn restart(&mut self) {
        let now = self.now();
        self.planner = Planner::new(self.options.clone());
        self.planner.set_leading(true, now);
        self.planner.reset_sets(true, now);
        let all = |names: &Stored<DnsNameResolver>| names.values().cloned().collect();
        self.list(Output::Policy);
        self.list(Output::Map);
        self.list(Output::Set);
        self.planner.apply_resolvers(
            &Event::Synced(self.resolvers.values().cloned().collect()),
            now,
        );
        self.planner
            .apply_names(&Event::Synced(all(&self.names)), now);
    }

    /// The watch lists all objects of a kind, or says that it cannot.
    pub(crate) fn list(&mut self, output: Output) {
        let now = self.now();
        match output {
            Output::Policy => {
                let event = listed(&self.policies, self.unread.contains(&output));
                self.planner.apply_output(&event, now);
            }
            Output::Map => {
                let event = listed(&self.maps, self.unread.contains(&output));
                self.planner.apply_output(&event, now);
            }
            Output::Set => {
                let event = listed(&self.sets, self.unread.contains(&output));
                self.planner.apply_output(&event, now);
            }
        }
    }

    /// The time passes, and the planner does what is due.
    pub(crate) fn pass(&mut self, seconds: u64) {
        self.pass_for(Duration::from_secs(seconds));
    }

    pub(crate) fn pass_for(&mut self, duration: Duration) {
        let end = self.passed + duration;
        self.run();
        while let Some(next) = self.planner.next_timer(self.now()) {
            let next = next
                .saturating_duration_since(self.start)
                .max(self.passed + Duration::from_millis(1));
            if next > end {
                break;
            }
            self.passed = next;
            self.run();
        }
        self.passed = end;
        self.run();
    }

    pub(crate) fn run(&mut self) {
        for _ in 0..50 {
            let jobs = self.planner.next_jobs(16, self.now());
            self.reports.extend(self.planner.take_reports());
            if jobs.is_empty() {
                return;
            }
            for job in jobs {
                let done = self.carry_out(job);
                self.planner.finished(done, self.now());
            }
        }
        panic!("the planner does not come to rest");
    }

    pub(crate) fn resolver(&mut self, name: &str, spec: Value) {
        self.version += 1;
        let before = self.resolvers.get(&key(name));
        let generation = before.and_then(|it| it.metadata.generation).unwrap_or(0) + 1;
        let mut object: DnsResolver = serde_json::from_value(json!({
            "apiVersion": "dns.k8s.delta10.nl/v1alpha1",
            "kind": "DNSResolver",
            "metadata": {
                "name": key(name).name, "namespace": key(name).namespace, "uid": format!("uid-{name}"), "generation": generation,
                "resourceVersion": self.version.to_string(),
                "labels": {"team": "blue", "egress.example.com/set": "partners"},
            },
            "spec": spec,
        }))
        .unwrap();
        object.status = before.and_then(|it| it.status.clone());
        self.resolvers.insert(key(name), object.clone());
        self.planner
            .apply_resolvers(&Event::Applied(object), self.now());
    }

    /// The collector writes the status of a name.
    pub(crate) fn name(&mut self, name: &str, addresses: &[&str]) {
        let addresses = addresses.iter().map(
            |ip| json!({"ip": ip, "ttlSeconds": 30, "lastLookupTime": "2026-01-01T00:00:00Z"}),
        );
        let entry = json!({"dnsName": name, "resolvedAddresses": addresses.collect::<Vec<_>>()});
        self.put_name(name, json!({"resolvedNames": [entry]}));
    }

    /// The object of a name has no status.
    pub(crate) fn silence(&mut self, name: &str) {
        self.put_name(name, Value::Null);
    }

    pub(crate) fn put_name(&mut self, name: &str, status: Value) {
        let object_name = object_name(&DnsName::parse(name).unwrap(), 0);
        let object: DnsNameResolver = serde_json::from_value(json!({
            "apiVersion": "network.openshift.io/v1alpha1",
            "kind": "DNSNameResolver",
            "metadata": {"name": object_name, "namespace": "names", "uid": object_name},
            "spec": {"name": name},
            "status": status,
        }))
        .unwrap();
        self.names.insert(ObjectKey::of(&object), object.clone());
        self.planner
            .apply_names(&Event::Applied(object), self.now());
    }

    pub(crate) fn delete_name(&mut self, name: &str) {
        let object_name = object_name(&DnsName::parse(name).unwrap(), 0);
        let key = ObjectKey {
            namespace: "names".to_owned(),
            name: object_name,
        };
        self.names.remove(&key);
        self.planner.apply_names(&Event::Deleted(key), self.now());
    }

    /// A policy that people made; it may open a port.
    pub(crate) fn foreign_policy(&mut self, name: &str, port: Option<u16>) {
        let ports = port.map(|port| json!([{"port": port, "protocol": "UDP"}]));
        let to = json!([{"ipBlock": {"cidr": "198.51.100.1/32"}}]);
        let spec = json!({"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"to": to, "ports": ports}]});
        self.put_policy(name, spec, ObjectMeta::default());
    }

    /// A rule without peers, and a finalizer.
    pub(crate) fn open_policy(&mut self, name: &str) {
        let mut metadata = self.policies[&key(name)].metadata.clone();
        metadata.finalizers = Some(vec!["example.com/keep".to_owned()]);
        self.put_policy(
            name,
            json!({"podSelector": {}, "policyTypes": ["Egress"], "egress": [{}]}),
            metadata,
        );
    }

    /// A tenant writes an address into the IPMap, or makes one.
    pub(crate) fn edit_map(&mut self, name: &str, cidr: &str) {
        let metadata = self
            .maps
            .get(&key(name))
            .map(|it| it.metadata.clone())
            .unwrap_or_else(|| ObjectMeta {
                owner_references: Some(vec![controller_reference(name, &format!("uid-{name}"))]),
                ..ObjectMeta::default()
            });
        self.put_map(
            name,
            json!([{"name": "one.example.com", "ips": [cidr]}]),
            metadata,
        );
    }

    fn put_policy(&mut self, name: &str, spec: Value, metadata: ObjectMeta) {
        let spec = serde_json::from_value(spec).unwrap();
        let object = NetworkPolicy {
            metadata: self.named(name, metadata),
            spec: Some(spec),
        };
        self.policies.insert(key(name), object.clone());
        self.planner
            .apply_output(&Event::Applied(object), self.now());
    }

    fn put_map(&mut self, name: &str, domains: Value, metadata: ObjectMeta) {
        let data = serde_json::from_value(json!({"domains": domains})).unwrap();
        let object = IpMap {
            metadata: self.named(name, metadata),
            data: Some(data),
        };
        self.maps.insert(key(name), object.clone());
        self.planner
            .apply_output(&Event::Applied(object), self.now());
    }

    fn named(&mut self, name: &str, metadata: ObjectMeta) -> ObjectMeta {
        self.version += 1;
        ObjectMeta {
            name: Some(key(name).name),
            namespace: Some(key(name).namespace),
            uid: metadata
                .uid
                .clone()
                .or(Some(format!("made-{}", self.version))),
            resource_version: Some(self.version.to_string()),
            ..metadata
        }
    }

    /// A set that people made.
    pub(crate) fn foreign_set(&mut self, name: &str) {
        let mut set = NetworkSet::new(name, NetworkSetSpec::default());
        set.metadata = self.named(name, ObjectMeta::default());
        self.sets.insert(key(name), set.clone());
        self.planner.apply_output(&Event::Applied(set), self.now());
    }

    /// Another process begins, and finds no DNSResolver.
    pub(crate) fn restart_without_resolvers(&mut self) {
        self.resolvers.clear();
        self.restart();
    }

    pub(crate) fn delete_policy(&mut self, name: &str) {
        self.policies.remove(&key(name));
        self.planner
            .apply_output(&Event::<NetworkPolicy>::Deleted(key(name)), self.now());
    }

    /// The addresses of a policy, if there is one.
    pub(crate) fn policy(&self, name: &str) -> Option<Vec<String>> {
        let spec = self.policies.get(&key(name))?.spec.clone().unwrap();
        Some(egress::addresses(&spec).map(|it| it.to_string()).collect())
    }

    pub(crate) fn finalizers(&self, name: &str) -> Vec<String> {
        let metadata = self.policies[&key(name)].metadata.clone();
        metadata.finalizers.unwrap_or_default()
    }

    pub(crate) fn is_open(&self, name: &str) -> bool {
        let policy = self.policies.get(&key(name));
        policy.is_some_and(|it| egress::opens_everything(it.spec.as_ref().unwrap()))
    }

    pub(crate) fn map(&self, name: &str) -> IpMap {
        self.maps[&key(name)].clone()
    }

    pub(crate) fn set(&self, name: &str) -> NetworkSet {
        self.sets[&key(name)].clone()
    }

    pub(crate) fn status(&self, name: &str) -> DnsResolverStatus {
        let known = self.planner.resolvers.contains_key(&key(name));
        let stored = self.resolvers.get(&key(name)).filter(|_| known);
        stored.and_then(|it| it.status.clone()).unwrap_or_default()
    }

    pub(crate) fn condition(&self, name: &str, kind: &str) -> Condition {
        let conditions = self.status(name).conditions;
        conditions.into_iter().find(|it| it.type_ == kind).unwrap()
    }

    pub(crate) fn reasons(&self) -> Vec<&'static str> {
        self.reports.iter().map(|report| report.reason).collect()
    }
}

/// How long the first write may wait.
const FIRST: u64 = resolver::FIRST_ANSWERS.as_secs();
