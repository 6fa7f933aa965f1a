//! Asks the API server and the programs. A question that fails leaves its facts unseen, and the others go on.

pub(crate) mod requests;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, ResourceExt};
use runtime::store::ObjectKey;
use tokio::join;

use self::requests::{find, list, version};
use super::{
    facts::{ClusterDns, Corefile, DnsService, Facts, OvnKubernetes},
    name_servers::bypassing,
    programs::Programs,
    seen::{Seen, Unseen},
    workloads::{COMPONENT, Settings, Workload},
};
use crate::{
    corefile::{CUSTOM, custom_files},
    objects::{DaemonSet, Deployment, Event, Pod, Service},
    targets::{Access, has_ended, of_chart},
};

/// The ConfigMaps with ovn-kubernetes' flags, of OpenShift's operator.
const OVNKUBE_CONFIGS: [&str; 2] = ["ovnkube-config", "ovnkube-script-lib"];

/// Asks everything that a check needs.
pub(super) async fn cluster(access: &Access, mut settings: Settings) -> Facts {
    let (client, namespace) = (&access.client, &access.namespace);
    let of_chart = of_chart();
    let of_collector = format!("{COMPONENT}=collector");
    let (version, workloads, pods, events, services) = join!(
        version(client),
        workloads(client, namespace, &of_chart),
        list(Api::<Pod>::namespaced(client.clone(), namespace), &of_chart),
        list(Api::<Event>::namespaced(client.clone(), namespace), ""),
        list(
            Api::<Service>::namespaced(client.clone(), namespace),
            &of_collector
        ),
    );
    let version = version.map_err(|Unseen(cause)| Unseen(access.unreachable(&cause)));
    settings.update(workloads.as_deref().unwrap_or_default());
    let objects = settings.objects_namespace.as_str();
    let configs = OVNKUBE_CONFIGS.map(|name| config_map(client, objects, name));
    let (dns, corefile, node_local, bypassing, ovnkube, configs, programs) = join!(
        dns_services(client, &settings.dns_services),
        corefile(client, settings.corefile.clone()),
        node_local(client, settings.node_local.clone()),
        bypassing(client, &settings.dns_services),
        ovnkube(client, objects),
        futures_util::future::join_all(configs),
        programs(access, &pods),
    );
    Facts {
        namespace: namespace.clone(),
        version,
        workloads,
        settings,
        pods,
        events,
        services,
        dns: ClusterDns {
            services: dns,
            corefile,
            node_local,
            bypassing,
        },
        ovn_kubernetes: OvnKubernetes {
            pods: ovnkube,
            configs,
        },
        programs,
    }
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

async fn corefile(client: &Client, key: Option<ObjectKey>) -> Option<Corefile> {
    let key = key?;
    let (mut map, custom) = join!(
        config_map(client, &key.namespace, &key.name),
        config_map(client, &key.namespace, CUSTOM),
    );
    // As the files that the Corefile may import, if they can be seen.
    if let (Ok(Some(map)), Ok(custom)) = (&mut map, custom) {
        let data = map.data.get_or_insert_default();
        data.extend(custom_files(
            custom.and_then(|it| it.data).unwrap_or_default(),
        ));
    }
    Some((key, map))
}

/// The Corefile of a NodeLocal DNSCache, if its DaemonSet is there.
async fn node_local(client: &Client, key: Option<ObjectKey>) -> Option<Corefile> {
    let key = key?;
    let daemon_sets = Api::<DaemonSet>::namespaced(client.clone(), &key.namespace);
    match find(daemon_sets, &key.name).await {
        Ok(None) => None,
        Ok(Some(_)) => {
            let map = config_map(client, &key.namespace, &key.name).await;
            Some((key, map))
        }
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

async fn dns_pods(client: &Client, key: &ObjectKey) -> Seen<Option<Vec<Pod>>> {
    let api = Api::<Service>::namespaced(client.clone(), &key.namespace);
    let Some(service) = find(api, &key.name).await? else {
        return Ok(None);
    };
    let selector = service.spec.selector;
    if selector.is_empty() {
        return Err(Unseen(format!("Service {key} selects no pods by labels")));
    }
    let labels: Vec<String> = selector
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let api = Api::<Pod>::namespaced(client.clone(), &key.namespace);
    let mut pods = list(api, &labels.join(",")).await?;
    pods.retain(|pod| !has_ended(pod));
    Ok(Some(pods))
}

async fn programs(access: &Access, pods: &Seen<Vec<Pod>>) -> Programs {
    match pods {
        Ok(pods) => Programs::ask(&access.targets_of(pods)).await,
        Err(unseen) => Programs::unseen(unseen),
    }
}
