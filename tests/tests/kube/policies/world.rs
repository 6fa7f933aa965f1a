//! An API server of the test's own, a policy-writer, and writers of statuses.

use std::{collections::BTreeSet, fmt::Debug, net::IpAddr, path::Path, sync::Mutex};

use k8s_openapi::{
    api::networking::v1::NetworkPolicy, apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{
    Api, Client, Resource,
    api::{Patch, PatchParams, PostParams},
    core::NamespaceResourceScope,
};
use proto::api::{DnsName, DnsNameResolver, DnsResolver, IpMap, object_name};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tests::{kube::ApiServer, programs::Program, wait::eventually, workdir::Workdir};

/// The namespace of the DNSNameResolver objects.
pub(super) const NAMES: &str = "names";

/// The namespace of the DNSResolver objects.
pub(super) const TEAM: &str = "team-a";

pub(super) struct World {
    pub(super) server: ApiServer,
    pub(super) program: Program,
    workdir: Workdir,
    client: Client,
    known: Mutex<BTreeSet<String>>,
}

impl World {
    pub(super) async fn start(flags: &[&str]) -> Self {
        let server = ApiServer::start().await;
        server.make_namespace(NAMES).await;
        server.make_namespace(TEAM).await;
        let (workdir, client) = (Workdir::new(), server.client().await);
        let program = start_as(&workdir, &server.kubeconfig(), flags).await;
        program.ready().await;
        Self {
            server,
            program,
            workdir,
            client,
            known: Mutex::default(),
        }
    }

    /// Another policy-writer, with the rights of this kubeconfig.
    pub(super) async fn another_as(&self, kubeconfig: &Path, flags: &[&str]) -> Program {
        start_as(&self.workdir, kubeconfig, flags).await
    }

    pub(super) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), TEAM)
    }

    fn names(&self) -> Api<DnsNameResolver> {
        Api::namespaced(self.client.clone(), NAMES)
    }

    /// Creates or changes a DNSResolver.
    pub(super) async fn resolver(&self, name: &str, spec: Value) {
        let object = json!({
            "apiVersion": "dns.k8s.delta10.nl/v1alpha1",
            "kind": "DNSResolver",
            "metadata": {"name": name, "labels": {"team": "blue", "egress.example.com/set": "partners"}},
            "spec": spec,
        });
        let params = PatchParams::apply("tests").force();
        let resolvers = self.api::<DnsResolver>();
        resolvers
            .patch(name, &params, &Patch::Apply(object))
            .await
            .unwrap();
    }

    pub(super) async fn read_resolver(&self, name: &str) -> DnsResolver {
        self.api().get(name).await.unwrap()
    }

    /// Writes the status of a name, as the collector does.
    pub(super) async fn answer(&self, name: &str, addresses: &[&str]) {
        let addresses: Vec<_> = addresses
            .iter()
            .map(|ip| json!({"ip": ip, "ttlSeconds": 30, "lastLookupTime": "2026-01-01T00:00:00Z"}))
            .collect();
        let entry = json!({"dnsName": name, "resolvedAddresses": addresses});
        self.status(name, json!({"resolvedNames": [entry]})).await;
    }

    /// Says why a name has no address.
    pub(super) async fn fail(&self, name: &str, reason: &str) {
        let condition = json!({
            "type": "Degraded", "status": "True", "reason": reason, "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        let entry = json!({"dnsName": name, "resolvedAddresses": [], "conditions": [condition]});
        self.status(name, json!({"resolvedNames": [entry]})).await;
    }

    pub(super) async fn status(&self, name: &str, status: Value) {
        let object = object_name(&DnsName::parse(name).unwrap(), 0);
        let is_new = self.known.lock().unwrap().insert(name.to_owned());
        if is_new {
            let made = json!({
                "apiVersion": "network.openshift.io/v1alpha1",
                "kind": "DNSNameResolver",
                "metadata": {"name": object},
                "spec": {"name": name},
            });
            let made = serde_json::from_value(made).unwrap();
            let params = PostParams::default();
            self.names().create(&params, &made).await.unwrap();
        }
        let patch = Patch::Merge(json!({"status": status}));
        let params = PatchParams::default();
        let patched = self.names().patch_status(&object, &params, &patch).await;
        patched.unwrap();
    }

    pub(super) async fn read<K>(&self, name: &str) -> Option<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        self.api().get_opt(name).await.unwrap()
    }

    pub(super) async fn policy(&self, name: &str) -> Option<NetworkPolicy> {
        self.read(name).await
    }

    pub(super) async fn map(&self, name: &str) -> Option<IpMap> {
        self.read(name).await
    }

    /// Waits until the policy allows exactly these addresses.
    pub(super) async fn allows(&self, name: &str, addresses: &[&str]) {
        let mut wanted: Vec<IpAddr> = addresses.iter().map(|it| it.parse().unwrap()).collect();
        wanted.sort_unstable();
        eventually(&format!("the policy {name}"), async || {
            let policy = self.policy(name).await.ok_or("there is none")?;
            let mut found = addresses_of(&policy);
            found.sort_unstable();
            if found == wanted && !is_open(&policy) {
                Ok(())
            } else {
                Err(format!("{found:?}"))
            }
        })
        .await;
    }

    /// [`World::allows`], and the IPMap has these addresses.
    pub(super) async fn has(&self, name: &str, addresses: &[&str]) {
        self.allows(name, addresses).await;
        eventually(&format!("the IPMap {name}"), async || {
            let map = self.map(name).await.ok_or("there is none")?;
            let found = serde_json::to_string(&map.data).unwrap();
            let has = |ip: &&str| found.contains(&format!("\"{ip}/"));
            let is_complete = addresses.iter().all(has);
            is_complete.then_some(()).ok_or(found)
        })
        .await;
    }

    pub(super) async fn condition(&self, name: &str, kind: &str) -> Condition {
        eventually(&format!("the condition {kind}"), async || {
            let status = self.read_resolver(name).await.status.unwrap_or_default();
            let mut conditions = status.conditions.into_iter();
            let found = conditions.find(|it| it.type_ == kind);
            found.ok_or_else(|| "there is none".to_owned())
        })
        .await
    }

    /// Waits for the condition with this status.
    pub(super) async fn becomes(&self, name: &str, kind: &str, status: &str) -> Condition {
        eventually(&format!("{kind} is {status}"), async || {
            let condition = self.condition(name, kind).await;
            if condition.status == status {
                Ok(condition)
            } else {
                Err(format!("{condition:?}"))
            }
        })
        .await
    }

    pub(super) async fn is_ready(&self, name: &str) {
        eventually(&format!("{name} is ready"), async || {
            let status = self.read_resolver(name).await.status.unwrap_or_default();
            if status.ready {
                Ok(())
            } else {
                Err(format!("{status:?}"))
            }
        })
        .await;
    }
}

async fn start_as(workdir: &Workdir, kubeconfig: &Path, flags: &[&str]) -> Program {
    let environment = vec![("KUBECONFIG", kubeconfig.display().to_string())];
    let fixed = ["--store", "kube", "--dnsresolver-objects-namespace", NAMES];
    let args = fixed.iter().chain(flags).map(|it| (*it).to_owned());
    let args = args.collect();
    Program::start_with(workdir.path(), "policy-writer", args, environment).await
}

/// The addresses of the policy's blocks.
pub(super) fn addresses_of(policy: &NetworkPolicy) -> Vec<IpAddr> {
    let spec = policy.spec.iter();
    let rules = spec.flat_map(|spec| spec.egress.iter().flatten());
    let peers = rules.flat_map(|rule| rule.to.iter().flatten());
    let blocks = peers.filter_map(|peer| peer.ip_block.as_ref());
    let single = |cidr: &str| cidr.split_once('/')?.0.parse().ok();
    blocks.filter_map(|block| single(&block.cidr)).collect()
}

/// Whether a rule allows every destination.
pub(super) fn is_open(policy: &NetworkPolicy) -> bool {
    let spec = policy.spec.iter();
    let mut rules = spec.flat_map(|spec| spec.egress.iter().flatten());
    rules.any(|rule| rule.to.as_ref().is_none_or(Vec::is_empty))
}
