//! Faults of objects in the cluster.

use std::{
    io::{Read, Write},
    net::TcpListener,
    thread,
};

use k8s_openapi::api::{
    core::v1::{ConfigMap, Event, Pod, Service},
    networking::v1::NetworkPolicy,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tests::{node::running, or_skip};

use super::{finds, is_well};
use crate::installation::{
    COREFILE, DNS_NAMESPACE, DNS_PODS, Installation, NAMESPACE, NODES, OBJECTS, OVNKUBE, SERVICES,
    label, ovnkube, writer_template,
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
    coredns(&it).await;
    policies(&it, &client).await;
    pods(&it, &client).await;
    definitions(&it, &client).await;
}

async fn corefiles(it: &Installation, client: &Client) {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), DNS_NAMESPACE);
    let put = async |corefile: &str| {
        let patch = Patch::Merge(json!({ "data": { "Corefile": corefile } }));
        maps.patch("coredns", &PatchParams::default(), &patch)
            .await
            .unwrap();
    };
    let patch = "egress corefile patch --configmap --dnstap tcp://10.96.0.53:6000 --dnstap tcp://10.96.0.54:6000";
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
    put(&format!(
        "{COREFILE}corp.example:53 {{\n    forward . 192.0.2.1\n}}\n"
    ))
    .await;
    let seen = "✗ Corefile: ConfigMap kube-system/coredns, line 11: the collector does not receive the answers of `corp.example:53`";
    finds(
        it,
        1,
        &[(
            seen,
            "add the `dnstap` line of each collector to this block",
        )],
    )
    .await;
    put(".:53 {\n    forward . /etc/resolv.conf\n").await;
    finds(
        it,
        1,
        &[(
            "✗ Corefile: ConfigMap kube-system/coredns: line ",
            "mend this line",
        )],
    )
    .await;
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
    finds(
        it,
        1,
        &[(
            &seen,
            "--dnstap tcp://10.96.0.53:6000 --dnstap tcp://10.96.0.77:6000",
        )],
    )
    .await;
    move_to(ip).await;
    is_well(it).await;
}

/// An old CoreDNS is not a fault, since flush probes make it send.
async fn coredns(it: &Installation) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let metrics = |version: &str| {
        format!(
            "coredns_build_info{{goversion=\"go1.21\",revision=\"\",version=\"{version}\"}} 1\n"
        )
    };
    let body = metrics("1.11.3");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let _ = stream.read(&mut [0; 4096]);
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all((head + &body).as_bytes());
        }
    });
    it.set_dns_metrics(0, port);
    let seen = format!(
        "! CoreDNS: version 1.11.3 is older than 1.13.2: it sends late, and may not dial again by itself (pods {})",
        DNS_PODS[0]
    );
    finds(it, 0, &[(&seen, "upgrade CoreDNS to 1.13.2 or newer")]).await;
    it.show_dns_metrics(0);
    is_well(it).await;
}

async fn policies(it: &Installation, client: &Client) {
    let policies: Api<NetworkPolicy> = Api::namespaced(client.clone(), DNS_NAMESPACE);
    let dns_alone = json!({ "metadata": { "name": "dns-alone" }, "spec": {
        "podSelector": { "matchLabels": { "k8s-app": "kube-dns" } },
        "policyTypes": ["Egress"],
        "egress": [{ "ports": [{ "port": 53, "protocol": "UDP" }] }],
    }});
    let policy = serde_json::from_value(dns_alone).unwrap();
    policies
        .create(&PostParams::default(), &policy)
        .await
        .unwrap();
    let seen = "✗ NetworkPolicies: NetworkPolicy kube-system/dns-alone: no rule of it lets CoreDNS connect";
    finds(
        it,
        1,
        &[(seen, "add an egress rule to the pods of the collectors")],
    )
    .await;
    policies
        .delete("dns-alone", &DeleteParams::default())
        .await
        .unwrap();
    is_well(it).await;
    // The chart's own policy, with other labels of CoreDNS.
    let policies: Api<NetworkPolicy> = Api::namespaced(client.clone(), NAMESPACE);
    let name = SERVICES[0].0;
    let mut own = policies.get(name).await.unwrap();
    policies
        .delete(name, &DeleteParams::default())
        .await
        .unwrap();
    own.metadata.resource_version = None;
    let mut other = serde_json::to_value(&own).unwrap();
    other["spec"]["ingress"][0]["from"][0]["podSelector"] =
        json!({ "matchLabels": { "k8s-app": "coredns" } });
    policies
        .create(
            &PostParams::default(),
            &serde_json::from_value(other).unwrap(),
        )
        .await
        .unwrap();
    let seen = format!(
        "✗ NetworkPolicies: NetworkPolicy {NAMESPACE}/{name}: no rule of it lets CoreDNS's pods"
    );
    finds(
        it,
        1,
        &[(&seen, "name CoreDNS's namespace and labels in dns.pods")],
    )
    .await;
    policies
        .delete(name, &DeleteParams::default())
        .await
        .unwrap();
    policies.create(&PostParams::default(), &own).await.unwrap();
    is_well(it).await;
}

/// Faults of the ovn-writer's pod on the second node.
async fn pods(it: &Installation, client: &Client) {
    let (name, template) = (it.writers[1].name.as_str(), writer_template());
    let key = (NAMESPACE, name);
    let image = template["spec"]["containers"][0]["image"].as_str().unwrap();
    let waiting =
        json!({ "waiting": { "reason": "ImagePullBackOff", "message": "Back-off pulling image" } });
    let mut status = running(&template, "10.244.1.3");
    status["containerStatuses"][0]["state"] = waiting;
    status["containerStatuses"][0]["ready"] = false.into();
    status["conditions"] = json!([{ "type": "Ready", "status": "False" }]);
    it.kubelet.set_status(key, status).await;
    let seen = format!("✗ Pods: {name}: the image {image} cannot be pulled: ImagePullBackOff");
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
    let without = (
        "✗ ovn-writer on each node: nodes without one: node-b",
        "rules with names do not work there",
    );
    finds(
        it,
        1,
        &[
            without,
            (
                "? Admission of pods: egress-by-name-ovn-writer lacks pods, and no Event says why",
                "get events",
            ),
        ],
    )
    .await;

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
    let enforces = "✗ Admission of pods: namespace egress-by-name enforces Pod Security restricted, which refuses the pods of egress-by-name-ovn-writer";
    let refuses =
        "✗ Admission of pods: Pod Security refuses the pods of egress-by-name-ovn-writer: ";
    finds(it, 1, &[without, (enforces, cure), (refuses, cure)]).await;
    label(client, NAMESPACE, "privileged").await;
    let events: Api<Event> = Api::namespaced(client.clone(), NAMESPACE);
    let delete = DeleteParams::default();
    events.delete("restricted", &delete).await.unwrap();

    let constraints = format!(
        "pods \"{name}\" is forbidden: unable to validate against any security context constraint: [provider \"restricted-v2\": Forbidden: not usable by user or serviceaccount, spec.volumes[1]: Invalid value: \"hostPath\": hostPath volumes are not allowed to be used]"
    );
    tell(client, "constraints", &constraints).await;
    let seen = "✗ Admission of pods: OpenShift refuses the pods of egress-by-name-ovn-writer: ";
    finds(
        it,
        1,
        &[without, (seen, "install the chart with openshift=true")],
    )
    .await;

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

/// The CRD goes, and then ovn-kubernetes gets its flag. Both are named at once.
async fn definitions(it: &Installation, client: &Client) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = "dnsnameresolvers.network.openshift.io";
    definitions
        .delete(name, &DeleteParams::default())
        .await
        .unwrap();
    let missing = (
        "✗ CRDs: the API server has no dnsnameresolvers.network.openshift.io",
        "crds.dnsNameResolvers=true",
    );
    let text = finds(it, 1, &[missing]).await;
    assert!(
        text.contains("✓ ovn-kubernetes: --enable-dns-name-resolver is off"),
        "{text}"
    );
    it.kubelet.delete((OBJECTS, OVNKUBE)).await;
    it.kubelet
        .run((OBJECTS, OVNKUBE), NODES[0], &ovnkube(true), "10.244.0.9")
        .await;
    let seen = "✗ ovn-kubernetes: --enable-dns-name-resolver is on, and there is no CRD of DNSNameResolver";
    let text = finds(it, 1, &[missing, (seen, "install the CRD at once")]).await;
    println!("{text}");
}
