//! Asks the API server and the programs. A question that fails leaves its facts unseen, and the others go on.

pub(super) mod requests;

use std::collections::BTreeSet;

use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment},
    coordination::v1::Lease,
    core::v1::{ConfigMap, Event, Namespace, Node, Pod, Service},
    networking::v1::NetworkPolicy,
};
use kube::{Api, Client, ResourceExt};
use runtime::store::ObjectKey;
use tokio::join;

use self::requests::{find, is_served, list, version};
use super::{
    dns_servers::{of_image, of_metrics},
    facts::{
        ClusterDns, DNS_NAME_RESOLVERS, DnsPod, DnsService, Facts, Leases, OvnKubernetes, Resource,
    },
    name_servers::bypassing,
    programs::Programs,
    seen::{Seen, Unseen},
    workloads::{COMPONENT, EGRESS_FIREWALL, Settings, Workload},
};
use crate::targets::{Access, Kind, forwarded_text, has_ended, of_chart};

/// The program that needs IPMaps, beside the sources of names.
const POLICY_WRITER: &str = Kind::PolicyWriter.as_str();

/// The resources that the programs need: API version, plural and name, and the sources of names and programs that need it.
const RESOURCES: [(&str, &str, &str, &[&str]); 5] = [
    (
        "network.openshift.io/v1alpha1",
        "dnsnameresolvers",
        DNS_NAME_RESOLVERS,
        &[EGRESS_FIREWALL, "dnsresolver"],
    ),
    (
        "k8s.ovn.org/v1",
        "egressfirewalls",
        "egressfirewalls.k8s.ovn.org",
        &[EGRESS_FIREWALL],
    ),
    (
        "dns.k8s.delta10.nl/v1alpha1",
        "dnsresolvers",
        "dnsresolvers.dns.k8s.delta10.nl",
        &["dnsresolver"],
    ),
    (
        "kubeovn.io/v1",
        "dnsnameresolvers",
        "dnsnameresolvers.kubeovn.io",
        &["kubeovn"],
    ),
    (
        "dns.k8s.delta10.nl/v1alpha1",
        "ipmaps",
        "ipmaps.dns.k8s.delta10.nl",
        &[POLICY_WRITER],
    ),
];

/// The Lease of the leading collector. That of the policy-writers has the name of the program.
const LEASE: &str = "collector";

/// The ConfigMaps with ovn-kubernetes' flags, of OpenShift's operator.
const OVNKUBE_CONFIGS: [&str; 2] = ["ovnkube-config", "ovnkube-script-lib"];

/// Where CoreDNS shows its metrics if its pod does not name the port.
const METRICS_PORT: u16 = 9153;

/// Asks everything that a check needs.
///
/// Before an installation it also looks for the namespace of the objects.
pub(super) async fn cluster(access: &Access, mut settings: Settings, is_before: bool) -> Facts {
    let (client, namespace) = (&access.client, &access.namespace);
    let of_chart = of_chart();
    let of_collector = format!("{COMPONENT}=collector");
    let (version, workloads, pods, events, services, nodes) = join!(
        version(client),
        workloads(client, namespace, &of_chart),
        list(Api::<Pod>::namespaced(client.clone(), namespace), &of_chart),
        list(Api::<Event>::namespaced(client.clone(), namespace), ""),
        list(
            Api::<Service>::namespaced(client.clone(), namespace),
            &of_collector
        ),
        list(Api::<Node>::all(client.clone()), ""),
    );
    settings.update(workloads.as_deref().unwrap_or_default());
    let objects = settings.objects_namespace.as_str();
    let dns = settings.dns_services.iter().map(|it| it.namespace.as_str());
    let policed: BTreeSet<&str> = dns.chain([namespace.as_str()]).collect();
    let looked_for = policed.iter().copied().chain(is_before.then_some(objects));
    let looked_for: BTreeSet<&str> = looked_for.collect();
    let configs = OVNKUBE_CONFIGS.map(|name| config_map(client, objects, name));
    let of_policies = settings.dns_resolver_objects.as_deref();
    let needing = settings.sources.iter().map(String::as_str);
    let needing = needing.chain(of_policies.map(|_| POLICY_WRITER)).collect();
    let (
        resources,
        namespaces,
        policies,
        dns,
        corefile,
        node_local,
        bypassing,
        lease,
        policy_lease,
        ovnkube,
        ovnkube_config,
        programs,
    ) = join!(
        resources(client, needing),
        each(looked_for, async |name| find(
            Api::<Namespace>::all(client.clone()),
            name
        )
        .await),
        each(policed, async |name| {
            list(Api::<NetworkPolicy>::namespaced(client.clone(), name), "").await
        }),
        dns_services(client, &settings.dns_services),
        corefile(client, settings.corefile.clone()),
        node_local(client, settings.node_local.clone()),
        async {
            if is_before {
                Ok(Vec::new())
            } else {
                bypassing(client, &settings.dns_services).await
            }
        },
        find(
            Api::namespaced(client.clone(), &settings.objects_namespace),
            LEASE
        ),
        policy_lease(client, of_policies),
        ovnkube(client, objects),
        futures_util::future::join_all(configs),
        programs(access, &pods),
    );
    Facts {
        namespace: namespace.clone(),
        version,
        resources,
        workloads,
        settings,
        namespaces,
        pods,
        events,
        services,
        policies,
        dns: ClusterDns {
            services: dns,
            corefile,
            node_local,
            bypassing,
        },
        leases: Leases {
            collectors: lease,
            policy_writers: policy_lease,
        },
        nodes,
        ovn_kubernetes: OvnKubernetes {
            pods: ovnkube,
            configs: ovnkube_config,
        },
        programs,
    }
}

/// Asks for each of several namespaces, at once.
async fn each<T>(
    names: BTreeSet<&str>,
    ask: impl AsyncFn(&str) -> Seen<T>,
) -> Vec<(String, Seen<T>)> {
    let ask = &ask;
    let asked = names.into_iter();
    let asked = asked.map(|name| async move { (name.to_owned(), ask(name).await) });
    futures_util::future::join_all(asked).await
}

async fn resources(client: &Client, needing: Vec<&str>) -> Vec<Resource> {
    let is_needed = |of: &[&str]| needing.iter().any(|it| of.contains(it));
    let needed = RESOURCES.into_iter().filter(|(.., of)| is_needed(of));
    let asked = needed.map(|(version, plural, name, _)| async move {
        Resource {
            name,
            is_served: is_served(client, version, plural).await,
        }
    });
    futures_util::future::join_all(asked).await
}

/// The Lease of the policy-writers, if there are any.
async fn policy_lease(client: &Client, namespace: Option<&str>) -> Option<Seen<Option<Lease>>> {
    let leases = Api::namespaced(client.clone(), namespace?);
    Some(find(leases, POLICY_WRITER).await)
}

async fn workloads(client: &Client, namespace: &str, labels: &str) -> Seen<Vec<Workload>> {
    let (deployments, daemon_sets) = join!(
        list(
            Api::<Deployment>::namespaced(client.clone(), namespace),
            labels
        ),
        list(
            Api::<DaemonSet>::namespaced(client.clone(), namespace),
            labels
        ),
    );
    let deployments = deployments?.into_iter().filter_map(Workload::of_deployment);
    let daemon_sets = daemon_sets?.into_iter().filter_map(Workload::of_daemon_set);
    Ok(deployments.chain(daemon_sets).collect())
}

async fn config_map(client: &Client, namespace: &str, name: &str) -> Seen<Option<ConfigMap>> {
    find(Api::namespaced(client.clone(), namespace), name).await
}

async fn corefile(
    client: &Client,
    key: Option<ObjectKey>,
) -> Option<(ObjectKey, Seen<Option<ConfigMap>>)> {
    let key = key?;
    let map = config_map(client, &key.namespace, &key.name).await;
    Some((key, map))
}

/// The Corefile of a NodeLocal DNSCache, if its DaemonSet is there.
async fn node_local(
    client: &Client,
    key: Option<ObjectKey>,
) -> Option<(ObjectKey, Seen<Option<ConfigMap>>)> {
    let key = key?;
    let daemon_sets = Api::<DaemonSet>::namespaced(client.clone(), &key.namespace);
    match find(daemon_sets, &key.name).await {
        Ok(None) => None,
        Ok(Some(_)) => corefile(client, Some(key)).await,
        Err(unseen) => Some((key, Err(unseen))),
    }
}

/// The pods of ovn-kubernetes.
async fn ovnkube(client: &Client, namespace: &str) -> Seen<Vec<Pod>> {
    let mut pods: Vec<Pod> = list(Api::namespaced(client.clone(), namespace), "").await?;
    pods.retain(|pod| pod.name_any().starts_with("ovnkube"));
    Ok(pods)
}

async fn dns_services(client: &Client, keys: &[ObjectKey]) -> Vec<DnsService> {
    let asked = keys.iter().map(|key| async {
        DnsService {
            key: key.clone(),
            pods: dns_pods(client, key).await,
        }
    });
    futures_util::future::join_all(asked).await
}

async fn dns_pods(client: &Client, key: &ObjectKey) -> Seen<Option<Vec<DnsPod>>> {
    let api = Api::<Service>::namespaced(client.clone(), &key.namespace);
    let Some(service) = find(api, &key.name).await? else {
        return Ok(None);
    };
    let selector = service.spec.and_then(|spec| spec.selector);
    let selector = selector.filter(|selector| !selector.is_empty());
    let selector =
        selector.ok_or_else(|| Unseen(format!("Service {key} selects no pods by labels")))?;
    let labels: Vec<String> = selector
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let api = Api::<Pod>::namespaced(client.clone(), &key.namespace);
    let pods = list(api.clone(), &labels.join(",")).await?;
    let running = pods.into_iter().filter(|pod| !has_ended(pod));
    let pods = running.map(|pod| async {
        let version = coredns_version(&api, &pod).await;
        DnsPod { pod, version }
    });
    Ok(Some(futures_util::future::join_all(pods).await))
}

/// The version by CoreDNS's metrics, or else by the tag of its image.
async fn coredns_version(pods: &Api<Pod>, pod: &Pod) -> Seen<(String, &'static str)> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let ports = containers.clone().flat_map(|it| it.ports.iter().flatten());
    let named = ports.filter(|port| port.name.as_deref() == Some("metrics"));
    let port = named
        .filter_map(|it| u16::try_from(it.container_port).ok())
        .next();
    let (port, name) = (port.unwrap_or(METRICS_PORT), pod.name_any());
    let text = forwarded_text(pods, &name, port, "/metrics").await;
    let shown = text.map(|text| of_metrics(&text));
    if let Ok(Some(version)) = shown {
        return Ok((version, "its metrics"));
    }
    let image = containers
        .filter_map(|it| it.image.as_deref())
        .find_map(of_image);
    image.map(|version| (version, "its image")).ok_or_else(|| {
        Unseen(match shown {
            Ok(_) => "its metrics have no coredns_build_info".to_owned(),
            Err(error) => format!("{error:#}"),
        })
    })
}

async fn programs(access: &Access, pods: &Seen<Vec<Pod>>) -> Programs {
    match pods {
        Ok(pods) => Programs::ask(&access.targets_of(pods)).await,
        Err(unseen) => Programs::unseen(unseen),
    }
}
