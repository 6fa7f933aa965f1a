//! Faults of objects in the cluster.

use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{ConfigMap, Event, Pod, Service},
};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tests::{chart::OVN_WRITER, node::running, or_skip};

use super::{finds, is_well};
use crate::installation::{
    COREFILE, DNS_NAMESPACE, Installation, NAMESPACE, NODES, SERVICES, label, writer_template,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_fault_of_an_object_is_named_with_its_cure() {
    let it = or_skip!(Installation::start().await);
    let client = it.server.client().await;
    let text = is_well(&it).await;
    println!("{text}");
    let json = it.egress(&["check", "-o", "json"]).await;
    let json: Value = serde_json::from_str(&json.1).unwrap();
    assert_eq!(
        (&json["result"], json["findings"].as_array().unwrap().len()),
        (&json!("ok"), text.lines().count() - 1)
    );
    corefiles(&it, &client).await;
    services(&it, &client).await;
    pods(&it, &client).await;
}

async fn corefiles(it: &Installation, client: &Client) {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), DNS_NAMESPACE);
    let put = async |corefile: &str| {
        let patch = Patch::Merge(json!({ "data": { "Corefile": corefile } }));
        maps.patch("coredns", &PatchParams::default(), &patch)
            .await
            .unwrap();
    };
    let patch = "egress corefile patch --live --apply --corefile kube-system/coredns";
    let reverted = COREFILE.lines().filter(|line| !line.contains("dnstap"));
    let reverted: Vec<&str> = reverted.collect();
    put(&reverted.join("\n")).await;
    finds(
        it,
        1,
        &[(
            "✗ Corefile: ConfigMap kube-system/coredns has no `dnstap` line",
            patch,
        )],
    )
    .await;
    put(&COREFILE.replace("10.96.0.54", "10.96.0.99")).await;
    let seen = "no `dnstap` line of ConfigMap kube-system/coredns names it; other lines name tcp://10.96.0.99:6000";
    finds(it, 1, &[(seen, patch)]).await;
    put(COREFILE).await;
    is_well(it).await;
}

/// A Service gets another address when it is made anew.
async fn services(it: &Installation, client: &Client) {
    let services: Api<Service> = Api::namespaced(client.clone(), NAMESPACE);
    let (name, ip) = SERVICES[1];
    let move_to = async |ip: &str| {
        let mut service = services.get(name).await.unwrap();
        services
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
        service.metadata.resource_version = None;
        service.metadata.uid = None;
        let spec = service.spec.as_mut().unwrap();
        (spec.cluster_ip, spec.cluster_ips) = (Some(ip.to_owned()), None);
        services
            .create(&PostParams::default(), &service)
            .await
            .unwrap();
    };
    move_to("10.96.0.77").await;
    let seen = format!("✗ Corefile: Service {name} is at tcp://10.96.0.77:6000");
    finds(it, 1, &[(&seen, "egress corefile patch --live --apply")]).await;
    move_to(ip).await;
    is_well(it).await;
}

/// Faults of the ovn-writer's pod on the second node.
async fn pods(it: &Installation, client: &Client) {
    let (name, template) = (it.writers[1].name.as_str(), writer_template());
    let key = (NAMESPACE, name);
    let waiting =
        json!({ "waiting": { "reason": "ImagePullBackOff", "message": "Back-off pulling image" } });
    let mut status = running(&template, "10.244.1.3");
    status["containerStatuses"][0]["state"] = waiting;
    status["containerStatuses"][0]["ready"] = false.into();
    status["conditions"] = json!([{ "type": "Ready", "status": "False" }]);
    it.kubelet.set_status(key, status).await;
    let seen = format!("✗ Pods: {name}: ImagePullBackOff: Back-off pulling image");
    finds(
        it,
        1,
        &[(&seen, "push the image, and set image.repository")],
    )
    .await;
    it.kubelet
        .set_status(key, running(&template, "10.244.1.3"))
        .await;
    is_well(it).await;

    it.kubelet.delete(key).await;
    let sets: Api<DaemonSet> = Api::namespaced(client.clone(), NAMESPACE);
    let wanted = async |desired: usize| {
        let status = json!({ "currentNumberScheduled": 1, "desiredNumberScheduled": desired, "numberMisscheduled": 0, "numberReady": 1 });
        let patch = Patch::Merge(json!({ "status": status }));
        let params = PatchParams::default();
        sets.patch_status(OVN_WRITER, &params, &patch)
            .await
            .unwrap();
    };
    wanted(2).await;
    let without = ("✗ Pods: egress-by-name-ovn-writer has 1 pods of 2", "");
    finds(it, 1, &[without]).await;

    // The controller of the DaemonSet repeats the API server's words in an Event.
    label(client, NAMESPACE, "restricted").await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let mut pod = template.clone();
    pod["metadata"]["name"] = name.into();
    let refused = pods
        .create(
            &PostParams::default(),
            &serde_json::from_value(pod).unwrap(),
        )
        .await;
    let kube::Error::Api(refused) = refused.unwrap_err() else {
        panic!("no answer of the API server");
    };
    tell(client, "restricted", &refused.message).await;
    let cure = "kubectl label --overwrite namespace egress-by-name pod-security.kubernetes.io/enforce=privileged";
    let seen = "✗ Pods: egress-by-name-ovn-writer has 1 pods of 2: Error creating: ";
    finds(it, 1, &[(seen, cure)]).await;
    label(client, NAMESPACE, "privileged").await;
    let events: Api<Event> = Api::namespaced(client.clone(), NAMESPACE);
    let delete = DeleteParams::default();
    events.delete("restricted", &delete).await.unwrap();

    it.kubelet.run(key, NODES[1], &template, "10.244.1.3").await;
    is_well(it).await;
}

/// An Event of the DaemonSet's controller, the latest so far.
async fn tell(client: &Client, name: &str, message: &str) {
    let events: Api<Event> = Api::namespaced(client.clone(), NAMESPACE);
    let now = k8s_openapi::jiff::Timestamp::now().to_string();
    let event = json!({
        "metadata": { "name": name },
        "involvedObject": { "kind": "DaemonSet", "name": "egress-by-name-ovn-writer", "namespace": NAMESPACE },
        "reason": "FailedCreate",
        "type": "Warning",
        "message": format!("Error creating: {message}"),
        "lastTimestamp": now,
    });
    let event = serde_json::from_value(event).unwrap();
    events.create(&PostParams::default(), &event).await.unwrap();
}
