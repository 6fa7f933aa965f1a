//! Nodes whose pods are processes of the test. The API server reaches them as kubelets, for port-forwards and logs.

use std::{
    collections::BTreeMap,
    fs,
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    coredns::free_port,
    kube::ApiServer,
    pki::{Authority, Validity},
    process::Process,
    programs::tool,
    wait::eventually,
    workdir::Workdir,
};

/// The kubelet of all nodes of a test. Fields are in the order in which they are dropped.
#[expect(missing_debug_implementations, reason = "the client has none")]
pub struct Kubelet {
    _process: Process,
    address: SocketAddr,
    client: Client,
    /// Says where the ports of each pod are.
    pods: PathBuf,
    _workdir: Workdir,
}

/// Where a pod really is.
#[derive(Clone, Debug, Default)]
pub struct Ports {
    /// The port of 127.0.0.1 behind each port of the pod.
    pub ports: BTreeMap<u16, u16>,
    /// The log of each container.
    pub logs: BTreeMap<String, PathBuf>,
}

impl Kubelet {
    pub async fn start(server: &ApiServer) -> Self {
        let workdir = Workdir::new();
        let side = Authority::new(workdir.path()).sign("kubelet", &["127.0.0.1"], Validity::Now);
        let pods = workdir.join("pods");
        fs::create_dir(&pods).expect("a folder");
        let address = free_port();
        let path = |path: &Path| path.display().to_string();
        let args = [
            "-listen",
            &address.to_string(),
            "-certificate",
            &path(&side.certificate),
            "-key",
            &path(&side.key),
            "-pods",
            &path(&pods),
        ];
        let process = Process::start(workdir.path(), "kubelet", &tool("kubelet"), args, &[]);
        eventually("the kubelet listens", async || {
            TcpStream::connect(address).map_err(|error| error.to_string())
        })
        .await;
        Self {
            _process: process,
            address,
            client: server.client().await,
            pods,
            _workdir: workdir,
        }
    }

    /// Registers a node, as a kubelet does.
    pub async fn register(&self, name: &str) {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let labels = json!({ "kubernetes.io/os": "linux", "kubernetes.io/hostname": name });
        let node = json!({ "metadata": { "name": name, "labels": labels } });
        let node = serde_json::from_value(node).expect("a Node");
        let made = nodes.create(&PostParams::default(), &node).await;
        made.expect("the Node");
        let status = json!({ "status": {
            "addresses": [{ "type": "InternalIP", "address": self.address.ip() }],
            "daemonEndpoints": { "kubeletEndpoint": { "Port": self.address.port() } },
            "conditions": [{ "type": "Ready", "status": "True" }],
        } });
        let (params, status) = (PatchParams::default(), Patch::Merge(status));
        let patched = nodes.patch_status(name, &params, &status).await;
        patched.expect("its status");
    }

    /// Creates a pod on a node from a template, as its controller, the scheduler and the kubelet do together.
    pub async fn run(
        &self,
        (namespace, name): (&str, &str),
        node: &str,
        template: &Value,
        ip: &str,
    ) {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let mut pod = template.clone();
        pod["metadata"]["name"] = name.into();
        pod["spec"]["nodeName"] = node.into();
        let pod = serde_json::from_value(pod).expect("a Pod");
        let made = api.create(&PostParams::default(), &pod).await;
        made.expect("the Pod");
        self.set_status((namespace, name), running(template, ip))
            .await;
    }

    /// Replaces the status of a pod.
    pub async fn set_status(&self, (namespace, name): (&str, &str), status: Value) {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let status = Patch::Merge(json!({ "status": status }));
        let patched = api
            .patch_status(name, &PatchParams::default(), &status)
            .await;
        patched.expect("its status");
    }

    /// Deletes a pod at once.
    pub async fn delete(&self, (namespace, name): (&str, &str)) {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let params = DeleteParams::default().grace_period(0);
        api.delete(name, &params).await.expect("the pod was there");
    }

    /// Says where the ports and logs of a pod are from now on.
    pub fn connect(&self, (namespace, name): (&str, &str), to: &Ports) {
        let folder = self.pods.join(namespace);
        fs::create_dir_all(&folder).expect("a folder");
        let text = json!({ "ports": to.ports, "logs": to.logs }).to_string();
        let (file, new) = (folder.join(format!("{name}.json")), folder.join("new"));
        fs::write(&new, text).expect("a file");
        fs::rename(new, file).expect("a file in its place");
    }
}

/// The status of a pod all of whose containers run and are ready.
pub fn running(template: &Value, ip: &str) -> Value {
    let containers = template["spec"]["containers"].as_array();
    let containers = containers.expect("containers").iter();
    let statuses = containers.map(|it| {
        json!({
            "name": it["name"], "image": it["image"], "imageID": "", "ready": true, "restartCount": 0,
            "state": { "running": { "startedAt": "2026-01-01T00:00:00Z" } },
        })
    });
    json!({
        "phase": "Running",
        "podIP": ip,
        "podIPs": [{ "ip": ip }],
        "conditions": [{ "type": "Ready", "status": "True" }],
        "containerStatuses": statuses.collect::<Vec<_>>(),
    })
}
