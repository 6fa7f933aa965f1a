//! A store in memory, a clock, and a planner whose jobs are carried out at once.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::networking::v1::NetworkPolicy,
    apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta},
};
use kube::Resource;
use proto::api::{DnsNameResolver, DnsResolver, DnsResolverStatus, IpMap, NetworkSet, object_name};
use runtime::store::{Event, Precondition};
use serde_json::{Value, json};

use super::super::*;
use crate::{
    egress,
    output::{Object, Observed, Written},
    ownership::controller_reference,
};

const NAMESPACE: &str = "team-a";

pub(super) fn key(name: &str) -> ObjectKey {
    ObjectKey {
        namespace: NAMESPACE.to_owned(),
        name: name.to_owned(),
    }
}

/// The objects of one kind.
pub(super) type Stored<K> = BTreeMap<ObjectKey, K>;

pub(super) struct World {
    pub(super) planner: Planner,
    options: Options,
    start: Instant,
    passed: Duration,
    version: u64,
    names: Stored<DnsNameResolver>,
    resolvers: Stored<DnsResolver>,
    policies: Stored<NetworkPolicy>,
    maps: Stored<IpMap>,
    sets: Stored<NetworkSet>,
    /// Writes of objects, without statuses.
    pub(super) writes: usize,
    /// The store refuses every write of an object.
    pub(super) refuses: bool,
    reports: Vec<PlannedReport>,
}

impl World {
    pub(super) fn new() -> Self {
        let options = Options {
            filter: Filter::default(),
            max_addresses: 5_000,
            write_bytes: 1 << 20,
            retain: Duration::from_secs(3_600),
            adopt_until: None,
            label_prefix: Some("egress.example.com/".to_owned()),
            dns: None,
            collects_garbage: false,
        };
        let start = Instant::now();
        let mut world = Self {
            planner: Planner::new(options.clone(), start),
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
            refuses: false,
            reports: Vec::new(),
        };
        world.restart();
        world
    }

    /// One resolver whose first name is answered, written.
    pub(super) fn ready(name: &str, spec: Value, addresses: &[&str]) -> Self {
        let mut world = Self::new();
        let first = spec["domainList"][0].as_str().unwrap().to_owned();
        world.resolver(name, spec);
        world.name(&format!("{}.", first.trim_end_matches('.')), addresses);
        world.pass(FIRST);
        assert!(world.policy(name).is_some());
        world
    }

    pub(super) fn now(&self) -> Now {
        Now {
            instant: self.start + self.passed,
            time: Timestamp::from_millis(1_767_225_600_000) + self.passed,
        }
    }

    /// The process ends, and another one begins.
    pub(super) fn restart(&mut self) {
        let now = self.now();
        self.planner = Planner::new(self.options.clone(), now.instant);
        self.planner.set_leading(true, now);
        self.planner.set_api(SetApi::V3, now);
        let all = |names: &Stored<DnsNameResolver>| names.values().cloned().collect();
        self.planner.apply_output(
            &Event::Synced(self.policies.values().cloned().collect()),
            now,
        );
        self.planner
            .apply_output(&Event::Synced(self.maps.values().cloned().collect()), now);
        self.planner
            .apply_output(&Event::Synced(self.sets.values().cloned().collect()), now);
        self.planner.apply_resolvers(
            &Event::Synced(self.resolvers.values().cloned().collect()),
            now,
        );
        self.planner
            .apply_names(&Event::Synced(all(&self.names)), now);
    }

    pub(super) fn adopt_for(&mut self, seconds: u64) {
        self.options.adopt_until = Some(self.now().time + Duration::from_secs(seconds));
        self.restart();
    }

    pub(super) fn write_bytes(&mut self, bytes: usize) {
        self.options.write_bytes = bytes;
        self.restart();
    }

    pub(super) fn limit(&mut self, addresses: usize) {
        self.options.max_addresses = addresses;
        self.restart();
    }

    /// The time passes, and the planner does what is due.
    pub(super) fn pass(&mut self, seconds: u64) {
        let end = self.passed + Duration::from_secs(seconds);
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

    pub(super) fn run(&mut self) {
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

    pub(super) fn carry_out(&mut self, job: Job) -> Done {
        let results = job
            .operations
            .into_iter()
            .map(|operation| self.operate(&job.key, operation));
        let results = results.collect();
        let status = job.status.map(|object| {
            let stored = self
                .resolvers
                .get_mut(&job.key)
                .ok_or(StoreError::NotFound(job.key.clone()))?;
            if stored.metadata.resource_version != object.metadata.resource_version {
                return Err(StoreError::Conflict(job.key.clone()));
            }
            stored.status = object.status;
            self.version += 1;
            stored.metadata.resource_version = Some(self.version.to_string());
            Ok(stored.clone())
        });
        Done {
            key: job.key,
            results,
            status,
            since: job.since,
        }
    }

    fn operate(&mut self, key: &ObjectKey, operation: Operation) -> (Output, OperationResult) {
        self.version += 1;
        let version = self.version;
        let refusal = StoreError::Invalid {
            key: key.clone(),
            reason: "no".to_owned(),
        };
        let refuses = self.refuses;
        let is_create = matches!(operation, Operation::Create(_));
        match operation {
            Operation::Create(object) | Operation::Replace(object) => {
                let output = object.output();
                if refuses {
                    return (output, OperationResult::Failed(refusal));
                }
                self.writes += 1;
                let result = match object {
                    Object::Policy(object) => {
                        put(&mut self.policies, key, object, is_create, version)
                    }
                    Object::Map(object) => put(&mut self.maps, key, object, is_create, version),
                    Object::Set(object) => put(&mut self.sets, key, object, is_create, version),
                    Object::CrdSet(_) => panic!("it is not served"),
                };
                (output, result)
            }
            Operation::Delete(output, precondition) => {
                self.writes += 1;
                match output {
                    Output::Policy => remove(&mut self.policies, key, &precondition),
                    Output::Map => remove(&mut self.maps, key, &precondition),
                    Output::Set => remove(&mut self.sets, key, &precondition),
                }
                (output, OperationResult::Gone)
            }
        }
    }

    pub(super) fn resolver(&mut self, name: &str, spec: Value) {
        self.version += 1;
        let before = self.resolvers.get(&key(name));
        let generation = before.and_then(|it| it.metadata.generation).unwrap_or(0) + 1;
        let mut object: DnsResolver = serde_json::from_value(json!({
            "apiVersion": "dns.k8s.delta10.nl/v1alpha1",
            "kind": "DNSResolver",
            "metadata": {
                "name": name, "namespace": NAMESPACE, "uid": format!("uid-{name}"), "generation": generation,
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
    pub(super) fn name(&mut self, name: &str, addresses: &[&str]) {
        let addresses = addresses.iter().map(
            |ip| json!({"ip": ip, "ttlSeconds": 30, "lastLookupTime": "2026-01-01T00:00:00Z"}),
        );
        let entry = json!({"dnsName": name, "resolvedAddresses": addresses.collect::<Vec<_>>()});
        self.put_name(name, json!({"resolvedNames": [entry]}));
    }

    /// The object of a name has no status.
    pub(super) fn silence(&mut self, name: &str) {
        self.put_name(name, Value::Null);
    }

    pub(super) fn put_name(&mut self, name: &str, status: Value) {
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

    pub(super) fn delete_name(&mut self, name: &str) {
        let object_name = object_name(&DnsName::parse(name).unwrap(), 0);
        let key = ObjectKey {
            namespace: "names".to_owned(),
            name: object_name,
        };
        self.names.remove(&key);
        self.planner.apply_names(&Event::Deleted(key), self.now());
    }

    /// A policy that people made; it may open a port.
    pub(super) fn foreign_policy(&mut self, name: &str, port: Option<u16>) {
        let ports = port.map(|port| json!([{"port": port, "protocol": "UDP"}]));
        let to = json!([{"ipBlock": {"cidr": "198.51.100.1/32"}}]);
        let spec = json!({"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"to": to, "ports": ports}]});
        self.put_policy(name, spec, ObjectMeta::default());
    }

    /// A rule without peers.
    pub(super) fn open_policy(&mut self, name: &str) {
        let metadata = self.policies[&key(name)].metadata.clone();
        self.put_policy(
            name,
            json!({"podSelector": {}, "policyTypes": ["Egress"], "egress": [{}]}),
            metadata,
        );
    }

    /// A write of dns-resolution-operator. It keeps annotations.
    pub(super) fn old_operator(&mut self, name: &str, addresses: &[&str]) {
        let ips: Vec<_> = addresses.iter().map(|ip| format!("{ip}/32")).collect();
        let to: Vec<_> = ips
            .iter()
            .map(|cidr| json!({"ipBlock": {"cidr": cidr}}))
            .collect();
        let owner = controller_reference(name, &format!("uid-{name}"));
        let metadata = |old: Option<&ObjectMeta>| ObjectMeta {
            owner_references: Some(vec![owner.clone()]),
            ..old.cloned().unwrap_or_default()
        };
        let policy = metadata(self.policies.get(&key(name)).map(|it| &it.metadata));
        let map = metadata(self.maps.get(&key(name)).map(|it| &it.metadata));
        self.put_policy(
            name,
            json!({"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"to": to}]}),
            policy,
        );
        self.put_map(name, json!([{"name": "one.example.com", "ips": ips}]), map);
    }

    /// A tenant writes an address into the IPMap, or makes one.
    pub(super) fn edit_map(&mut self, name: &str, cidr: &str) {
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
            name: Some(name.to_owned()),
            namespace: Some(NAMESPACE.to_owned()),
            uid: metadata
                .uid
                .clone()
                .or(Some(format!("made-{}", self.version))),
            resource_version: Some(self.version.to_string()),
            ..metadata
        }
    }

    pub(super) fn delete_policy(&mut self, name: &str) {
        self.policies.remove(&key(name));
        self.planner
            .apply_output(&Event::<NetworkPolicy>::Deleted(key(name)), self.now());
    }

    /// The addresses of a policy, if there is one.
    pub(super) fn policy(&self, name: &str) -> Option<Vec<String>> {
        let spec = self.policies.get(&key(name))?.spec.clone().unwrap();
        Some(egress::addresses(&spec).map(|it| it.to_string()).collect())
    }

    pub(super) fn is_open(&self, name: &str) -> bool {
        let policy = self.policies.get(&key(name));
        policy.is_some_and(|it| egress::opens_everything(it.spec.as_ref().unwrap()))
    }

    pub(super) fn map(&self, name: &str) -> IpMap {
        self.maps[&key(name)].clone()
    }

    pub(super) fn set(&self, name: &str) -> NetworkSet {
        self.sets[&key(name)].clone()
    }

    pub(super) fn status(&self, name: &str) -> DnsResolverStatus {
        let known = self.planner.resolvers.contains_key(&key(name));
        let stored = self.resolvers.get(&key(name)).filter(|_| known);
        stored.and_then(|it| it.status.clone()).unwrap_or_default()
    }

    pub(super) fn condition(&self, name: &str, kind: &str) -> Condition {
        let conditions = self.status(name).conditions;
        conditions.into_iter().find(|it| it.type_ == kind).unwrap()
    }

    pub(super) fn reasons(&self) -> Vec<&'static str> {
        self.reports.iter().map(|report| report.reason).collect()
    }
}

/// How long the first write may wait.
const FIRST: u64 = crate::resolver::FIRST_ANSWERS.as_secs();

fn put<K: Written>(
    stored: &mut Stored<K>,
    key: &ObjectKey,
    mut object: K,
    is_create: bool,
    version: u64,
) -> OperationResult {
    let old = stored.get(key);
    let is_right = match old {
        None => is_create,
        Some(old) => !is_create && old.meta().resource_version == object.meta().resource_version,
    };
    if !is_right {
        return old.map_or(OperationResult::Gone, |old| {
            OperationResult::Changed(Observed::of(old))
        });
    }
    let metadata = Resource::meta_mut(&mut object);
    metadata.resource_version = Some(version.to_string());
    metadata
        .uid
        .get_or_insert_with(|| format!("made-{version}"));
    stored.insert(key.clone(), object.clone());
    OperationResult::Written(Observed::of(&object))
}

fn remove<K: Written>(stored: &mut Stored<K>, key: &ObjectKey, precondition: &Precondition) {
    let version = stored.get(key).map(|it| it.meta().resource_version.clone());
    assert_eq!(version, Some(precondition.resource_version.clone()));
    stored.remove(key);
}
