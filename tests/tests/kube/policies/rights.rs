//! The chart's rights and admission policies for the policy-writer.

use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, PostParams},
};
use proto::api::{DnsResolver, IpMap};
use serde_json::{Value, json};
use tests::{
    chart::{self, POLICY_WRITER, kind_of},
    kube::ApiServer,
    programs::Program,
    wait::eventually,
};

use super::{
    kinds::define,
    world::{NAMES, TEAM, World},
};
use crate::rbac::allowed;

/// The largest roles that any values produce.
const FLAGS: [&str; 6] = [
    "--set",
    "rules.sources={egressfirewall,dnsresolver}",
    "--set",
    "policyWriter.enabled=true",
    "--set",
    "policyWriter.networkSets=true",
];

/// Installs rights and admission policies in the namespace of the names, and starts a policy-writer as its account.
async fn install(world: &World) -> Program {
    let server = &world.server;
    server.make_namespace("ovn-kubernetes").await;
    server
        .grant(
            NAMES,
            &[
                &FLAGS[..],
                &[
                    "--set",
                    "rules.dnsResolverObjectsNamespace=names",
                    "--set",
                    "objectsNamespace=ovn-kubernetes",
                ],
            ]
            .concat(),
        )
        .await;
    for object in rendered() {
        let is_policy = kind_of(&object).starts_with("ValidatingAdmissionPolicy");
        // The test itself writes the statuses of names, so the policy for those is left out.
        if is_policy && !object.name_any().ends_with("-status-writers") {
            server.make(&object).await;
        }
    }
    server.config_of(NAMES, POLICY_WRITER).await;
    let kubeconfig = server.folder().join(format!("{POLICY_WRITER}.kubeconfig"));
    world.another_as(&kubeconfig, &["--leader-elect"]).await
}

fn rendered() -> Vec<kube::api::DynamicObject> {
    chart::render(NAMES, &FLAGS)
}

fn policy(owner: Option<Value>, egress: Value) -> NetworkPolicy {
    serde_json::from_value(json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "tried", "ownerReferences": owner.into_iter().collect::<Vec<_>>()},
        "spec": {"podSelector": {}, "policyTypes": ["Egress"], "egress": egress},
    }))
    .unwrap()
}

async fn client_of(server: &ApiServer) -> Client {
    Client::try_from(server.config_of(NAMES, POLICY_WRITER).await).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn account_has_the_rights_it_uses_and_policies_bound_it() {
    let mut world = World::start(&[]).await;
    world.program.process().kill();
    define(&world, "networksets.crd.projectcalico.org.yaml").await;
    let program = install(&world).await;
    program.ready().await;
    all_rights_are_used(&world).await;
    policies_bound_the_account(&world).await;
    author_without_the_right_to_sets_gets_none(&world).await;
}

async fn all_rights_are_used(world: &World) {
    world
        .resolver("a", json!({"domainList": ["www.example.com"]}))
        .await;
    world
        .resolver(
            "b",
            json!({"domainList": ["www.example.com"], "generateType": "CalicoNetworkSet"}),
        )
        .await;
    world.answer("www.example.com.", &["192.0.2.1"]).await;
    world.has("a", &["192.0.2.1"]).await;
    world.is_ready("b").await;
    world.answer("www.example.com.", &["192.0.2.2"]).await;
    world.has("a", &["192.0.2.2"]).await;
    let user = format!("system:serviceaccount:{NAMES}:{POLICY_WRITER}");
    eventually("the set is written again", async || {
        let asked = world.server.asked_by(&user);
        let updates = ("update".to_owned(), "networksets".to_owned());
        asked
            .contains(&updates)
            .then_some(())
            .ok_or(format!("{asked:?}"))
    })
    .await;
    // Each kind in place of the other.
    world
        .resolver(
            "a",
            json!({"domainList": ["www.example.com"], "generateType": "CalicoNetworkSet"}),
        )
        .await;
    world
        .resolver("b", json!({"domainList": ["www.example.com"]}))
        .await;
    let allowed = allowed(&rendered(), POLICY_WRITER);
    eventually("all of it is used", async || {
        let asked = world.server.asked_by(&user);
        let beyond: Vec<_> = asked.difference(&allowed).collect();
        assert!(beyond.is_empty(), "{beyond:?}");
        // An object is read after a conflict. An admission plugin asks for the right to finalizers. A patch that makes an
        // Event needs the right to create one.
        let is_rare = |(verb, resource): &&(String, String)| {
            resource == "dnsresolvers/finalizers"
                || (verb == "get" && resource != "leases")
                || resource == "events"
        };
        let unused: Vec<_> = allowed
            .difference(&asked)
            .filter(|it| !is_rare(it))
            .collect();
        if unused.is_empty() {
            Ok(())
        } else {
            Err(format!("{unused:?}"))
        }
    })
    .await;
}

/// And the writers of IPMaps.
async fn policies_bound_the_account(world: &World) {
    world
        .resolver("c", json!({"domainList": ["www.example.com"]}))
        .await;
    world.has("c", &["192.0.2.2"]).await;
    let uid = world.api::<DnsResolver>().get("c").await.unwrap().uid();
    let owner = |controller: bool| json!({"apiVersion": "dns.k8s.delta10.nl/v1alpha1", "kind": "DNSResolver", "name": "c", "uid": uid, "controller": controller});
    let to = json!([{"to": [{"ipBlock": {"cidr": "192.0.2.1/32"}}]}]);
    let account: Api<NetworkPolicy> = Api::namespaced(client_of(&world.server).await, TEAM);
    let params = PostParams::default();
    for (object, words) in [
        (
            policy(None, to.clone()),
            "whose controller is a DNSResolver",
        ),
        (
            policy(Some(owner(false)), to.clone()),
            "whose controller is a DNSResolver",
        ),
        (
            policy(Some(owner(true)), json!([{}])),
            "a rule without destinations",
        ),
        (
            policy(
                Some(owner(true)),
                json!([{"to": [], "ports": [{"port": 53}]}]),
            ),
            "a rule without destinations",
        ),
    ] {
        // A new admission policy takes a moment.
        eventually(words, async || {
            match account.create(&params, &object).await {
                Err(error) if error.to_string().contains(words) => Ok(()),
                Err(error) => Err(error.to_string()),
                Ok(_) => {
                    // The policy may bind the account by now.
                    let admin = world.api::<NetworkPolicy>();
                    let deleted = admin.delete("tried", &DeleteParams::default()).await;
                    deleted.unwrap();
                    Err("it was admitted".to_owned())
                }
            }
        })
        .await;
    }
    account
        .create(&params, &policy(Some(owner(true)), json!([])))
        .await
        .unwrap();
    account
        .delete("tried", &DeleteParams::default())
        .await
        .unwrap();
    // Those of people are not for this account.
    let admin = world.api::<NetworkPolicy>();
    admin.create(&params, &policy(None, to)).await.unwrap();
    let refused = account
        .delete("tried", &DeleteParams::default())
        .await
        .unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("whose controller is a DNSResolver"),
        "{refused}"
    );

    // Even an administrator writes no IPMap, and may delete one.
    let maps = world.api::<IpMap>();
    let map: IpMap =
        serde_json::from_value(json!({"metadata": {"name": "forged"}, "data": {"domains": []}}))
            .unwrap();
    eventually("the IPMap is refused", async || {
        match maps.create(&params, &map).await {
            Err(error) if error.to_string().contains("may not write an IPMap") => Ok(()),
            Err(error) => Err(error.to_string()),
            Ok(_) => {
                maps.delete("forged", &DeleteParams::default())
                    .await
                    .unwrap();
                Err("it was admitted".to_owned())
            }
        }
    })
    .await;
    maps.delete("c", &DeleteParams::default()).await.unwrap();
    world.has("c", &["192.0.2.2"]).await;
}

/// A client with the rights of a tenant in its namespace: to DNSResolvers, and to these NetworkSets.
async fn tenant(world: &World, name: &str, sets: &str) -> Client {
    let rules = json!([
        {"apiGroups": ["dns.k8s.delta10.nl"], "resources": ["dnsresolvers"], "verbs": ["*"]},
        {"apiGroups": [sets], "resources": ["networksets"], "verbs": ["create"]},
    ]);
    for (kind, more) in [
        ("Role", json!({"rules": rules})),
        (
            "RoleBinding",
            json!({
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}],
            }),
        ),
    ] {
        let mut object = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": TEAM},
        });
        let fields = object.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        let object = serde_json::from_value(object).unwrap();
        world.server.make(&object).await;
    }
    let mut config = world.server.config().await;
    config.auth_info.impersonate = Some(name.to_owned());
    Client::try_from(config).unwrap()
}

async fn author_without_the_right_to_sets_gets_none(world: &World) {
    const WORDS: &str = "may not ask for generateType CalicoNetworkSet";
    let apis = async |name: &str, sets: &str| -> Api<DnsResolver> {
        Api::namespaced(tenant(world, name, sets).await, TEAM)
    };
    let without = apis("without", "example.com").await;
    let resolver = |name: &str, kind: &str, domain: &str| -> DnsResolver {
        serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"domainList": [domain], "generateType": kind},
        }))
        .unwrap()
    };
    let params = PostParams::default();
    // A new admission policy takes a moment.
    eventually("a tenant is refused", async || {
        let wanted = resolver("d", "CalicoNetworkSet", "www.example.com");
        match without.create(&params, &wanted).await {
            Err(error) if error.to_string().contains(WORDS) => Ok(()),
            Err(error) => Err(error.to_string()),
            Ok(_) => {
                let deleted = without.delete("d", &DeleteParams::default()).await;
                deleted.map(drop).unwrap();
                Err("it was admitted".to_owned())
            }
        }
    })
    .await;
    let of_policy = resolver("d", "NetworkPolicy", "www.example.com");
    without.create(&params, &of_policy).await.unwrap();
    let merge = async |api: &Api<DnsResolver>, name: &str, patch: Value| {
        let params = kube::api::PatchParams::default();
        let patch = kube::api::Patch::Merge(patch);
        let patched = api.patch(name, &params, &patch).await;
        patched.map(drop).map_err(|error| error.to_string())
    };
    let asks = json!({"spec": {"generateType": "CalicoNetworkSet"}});
    let refused = merge(&without, "d", asks).await.unwrap_err();
    assert!(refused.contains(WORDS), "{refused}");

    // The right to the sets of either group is enough.
    for (name, sets) in [
        ("with-old", "crd.projectcalico.org"),
        ("with-new", "projectcalico.org"),
    ] {
        let with = apis(name, sets).await;
        let made = resolver(name, "CalicoNetworkSet", "www.example.com");
        eventually("the right is known", async || {
            let made = with.create(&params, &made).await;
            made.map(drop).map_err(|error| error.to_string())
        })
        .await;
    }
}
