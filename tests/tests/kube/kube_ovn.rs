//! kube-OVN's DNSNameResolvers, with a stand-in for kube-ovn-controller, which makes and deletes them.

use std::{collections::BTreeSet, net::IpAddr};

use k8s_openapi::api::events::v1::Event;

use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use proto::api::{KubeOvnDnsNameResolver, POLICY_LABEL};
use serde_json::json;
use tests::{
    chart::{self, COLLECTOR, kind_of},
    kube::ApiServer,
    wait::eventually,
};

use crate::collectors::Collector;

const NAMESPACE: &str = "egress-by-name";

const RULES: [&str; 2] = ["--rules", "kubeovn"];

/// The requests of kube-ovn-controller: `pkg/controller/dns_name_resolver.go` of kubeovn/kube-ovn at
/// 1533681d7a6b3dbdd7e8870fa70f0dc6aa49a82a.
struct KubeOvn(Api<KubeOvnDnsNameResolver>);

impl KubeOvn {
    /// `createOrUpdateDNSNameResolver`. The real name ends with a hash of the domain.
    async fn make(&self, policy: &str, domain: &str) -> KubeOvnDnsNameResolver {
        let object = json!({
            "apiVersion": "kubeovn.io/v1",
            "kind": "DNSNameResolver",
            "metadata": { "name": name(policy, domain), "labels": { POLICY_LABEL: policy } },
            "spec": { "name": domain },
        });
        let object = serde_json::from_value(object).unwrap();
        self.0
            .create(&PostParams::default(), &object)
            .await
            .unwrap()
    }

    async fn delete(&self, policy: &str, domain: &str) {
        let name = name(policy, domain);
        self.0
            .delete(&name, &DeleteParams::default())
            .await
            .unwrap();
    }

    /// What `resolveDomainNames` reads of each object of a name: that reader takes any one of them.
    async fn read(&self, domain: &str) -> Result<Vec<BTreeSet<String>>, String> {
        let all = self.0.list(&ListParams::default()).await;
        let all = all.map_err(|error| error.to_string())?.items;
        let of_name = all.iter().filter(|object| object.spec.name == domain);
        Ok(of_name.map(addresses).collect())
    }

    async fn expect(&self, domain: &str, ips: &[&str]) {
        let wanted: BTreeSet<String> = ips.iter().map(|ip| (*ip).to_owned()).collect();
        eventually(&format!("{domain} = {ips:?} in each object"), async || {
            let found = self.read(domain).await?;
            let are_right = !found.is_empty() && found.iter().all(|it| *it == wanted);
            are_right.then_some(()).ok_or_else(|| format!("{found:?}"))
        })
        .await;
    }
}

fn name(policy: &str, domain: &str) -> String {
    format!(
        "anp-{policy}-{}",
        domain
            .trim_end_matches('.')
            .replace('.', "-")
            .replace('*', "any")
    )
}

/// `getResolvedAddressesFromDNSNameResolver`: it skips entries with failures.
fn addresses(object: &KubeOvnDnsNameResolver) -> BTreeSet<String> {
    let names = object.status.iter().flat_map(|it| &it.resolved_names);
    let without_failures = names.filter(|name| name.resolution_failures <= 0);
    let addresses = without_failures.flat_map(|name| &name.resolved_addresses);
    let valid = addresses.filter(|it| it.ip.parse::<IpAddr>().is_ok());
    valid.map(|it| it.ip.to_string()).collect()
}

async fn cluster() -> (ApiServer, KubeOvn) {
    let server = ApiServer::start().await;
    server.install_kube_ovn().await;
    server.make_namespace(NAMESPACE).await;
    let objects = KubeOvn(Api::all(server.client().await));
    (server, objects)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_objects_of_a_name_have_its_addresses_and_no_failures() {
    let (server, objects) = cluster().await;
    objects.make("web", "www.example.com.").await;
    let mut collector = Collector::start(&server.kubeconfig(), NAMESPACE, &RULES).await;
    objects.make("batch", "www.example.com.").await;
    objects.make("batch", "*.wild.example.com.").await;
    collector
        .hears("www.example.com.", &[[192, 0, 2, 1].into()], 3600)
        .await;
    collector
        .hears("a.wild.example.com.", &[[192, 0, 2, 2].into()], 3600)
        .await;
    objects.expect("www.example.com.", &["192.0.2.1"]).await;
    objects.expect("*.wild.example.com.", &["192.0.2.2"]).await;

    // kube-OVN's plugin counts a failure, and its controller would close the name.
    eventually("the failure is written", async || {
        let name = name("web", "www.example.com.");
        let mut object = objects
            .0
            .get(&name)
            .await
            .map_err(|error| error.to_string())?;
        let status = object.status.as_mut().ok_or("no status")?;
        status.resolved_names[0].resolution_failures = 1;
        let written = objects
            .0
            .replace_status(&name, &PostParams::default(), &object)
            .await;
        written.map(drop).map_err(|error| error.to_string())
    })
    .await;
    objects.expect("www.example.com.", &["192.0.2.1"]).await;

    // Only kube-ovn-controller makes and deletes objects.
    let left: BTreeSet<String> = objects
        .0
        .list(&ListParams::default())
        .await
        .unwrap()
        .iter()
        .map(ResourceExt::name_any)
        .collect();
    assert_eq!(left.len(), 3, "{left:?}");
    collector.expect_leading(true).await;
}

/// On an edit of one rule, kube-ovn-controller deletes the objects of the policy's other rules, and makes them again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edited_rule_costs_the_other_rules_no_address() {
    let (server, objects) = cluster().await;
    let mut collector = Collector::start(&server.kubeconfig(), NAMESPACE, &RULES).await;
    let domains: Vec<String> = (0..10).map(|i| format!("n{i}.example.com.")).collect();
    for domain in &domains {
        objects.make("web", domain).await;
    }
    // An answer that a reader has at the moment when its name comes may be lost.
    eventually("the names are known", async || {
        let known = collector.metric("egress_collector_names", &[]).await;
        (known >= 10.0).then_some(()).ok_or(known.to_string())
    })
    .await;
    for (i, domain) in (0_u8..).zip(&domains) {
        collector
            .hears(domain, &[[192, 0, 2, i].into()], 3600)
            .await;
    }
    let address = |i: usize| format!("192.0.2.{i}");
    for (i, domain) in domains.iter().enumerate() {
        objects.expect(domain, &[&address(i)]).await;
    }
    for edited in 0..3 {
        let others = || domains.iter().enumerate().filter(|(i, _)| *i != edited);
        for (_, domain) in others() {
            objects.delete("web", domain).await;
        }
        for (i, domain) in others() {
            let made = objects.make("web", domain).await;
            let name = made.name_any();
            eventually("the new object has its address", async || {
                let object = objects
                    .0
                    .get(&name)
                    .await
                    .map_err(|error| error.to_string())?;
                let found = addresses(&object);
                (found == [address(i)].into())
                    .then_some(())
                    .ok_or_else(|| format!("{found:?}"))
            })
            .await;
        }
    }
}

/// With the chart's values for kube-OVN, as its ServiceAccount.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_chart_for_kube_ovn_gives_the_rights_and_guards_the_statuses() {
    let (server, objects) = cluster().await;
    let values = chart::folder().join("ci/kube-ovn-values.yaml");
    for object in chart::render(NAMESPACE, &["--values", &values.to_string_lossy()]) {
        let is_account = kind_of(&object) == "ServiceAccount";
        let version = &object.types.as_ref().unwrap().api_version;
        let is_right = ["rbac.", "admissionregistration."]
            .iter()
            .any(|it| version.starts_with(it));
        if is_account || is_right {
            server.make(&object).await;
        }
    }
    server.config_of(NAMESPACE, COLLECTOR).await;
    let kubeconfig = server.folder().join(format!("{COLLECTOR}.kubeconfig"));
    objects.make("web", "www.example.com.").await;
    let mut collector = Collector::start(&kubeconfig, NAMESPACE, &RULES).await;
    collector
        .hears("www.example.com.", &[[192, 0, 2, 1].into()], 3600)
        .await;
    objects.expect("www.example.com.", &["192.0.2.1"]).await;
    collector.expect_leading(true).await;
    let user = format!("system:serviceaccount:{NAMESPACE}:{COLLECTOR}");
    let asked = server.asked_by(&user);
    for (verb, resource) in [
        ("list", "dnsnameresolvers"),
        ("watch", "dnsnameresolvers"),
        ("update", "dnsnameresolvers/status"),
        ("create", "leases"),
    ] {
        assert!(
            asked.contains(&(verb.to_owned(), resource.to_owned())),
            "{asked:?}"
        );
    }
    let kinds: BTreeSet<&str> = asked.iter().map(|(_, resource)| &**resource).collect();
    assert!(!kinds.contains("egressfirewalls"), "{kinds:?}");

    // Events go to the object, in no namespace.
    collector
        .hears("www.example.com.", &[[127, 0, 0, 1].into()], 3600)
        .await;
    let events: Api<Event> = Api::namespaced(server.client().await, "default");
    eventually("an Event", async || {
        let all = events.list(&ListParams::default()).await;
        let all = all.map_err(|error| error.to_string())?.items;
        let found = all.iter().any(|event| {
            let about = event.regarding.as_ref().and_then(|it| it.kind.as_deref());
            event.reason.as_deref() == Some("AddressRefused")
                && event
                    .note
                    .as_ref()
                    .is_some_and(|note| note.contains("loopback"))
                && about == Some("DNSNameResolver")
        });
        found.then_some(()).ok_or_else(|| format!("{all:?}"))
    })
    .await;

    // An administrator may not write a status, whatever the roles allow.
    let refused = eventually("the policy is in force", async || {
        let name = name("web", "www.example.com.");
        let object = objects
            .0
            .get(&name)
            .await
            .map_err(|error| error.to_string())?;
        let written = objects
            .0
            .replace_status(&name, &PostParams::default(), &object)
            .await;
        match written {
            Err(kube::Error::Api(status)) if status.code == 403 => Ok(status.message),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert!(refused.contains(&user), "{refused}");
}
