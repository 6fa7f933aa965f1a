//! The chart's collectors, run as by their Deployments' controllers: processes behind stand-ins for their Services.

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::atomic::{AtomicU8, Ordering},
    time::Duration,
};

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};
use tests::{
    chart, kube::ApiServer, programs::Program, service::Service, soak::is_long,
    wait::eventually_within, workdir::Workdir,
};
use tokio::time::sleep;

/// How long after its SIGTERM a pod still gets new streams: the endpoints' controller and every node must react first.
const LAG: Duration = Duration::from_secs(1);

/// A value of the chart; the delay is longer than [`LAG`].
const DELAY: &str = "collector.shutdownDelaySeconds=2";

/// The first address on which a collector listens for streams.
fn listens(program: &Program) -> SocketAddr {
    let messages = program.messages();
    let mut found = messages
        .iter()
        .filter(|it| it["message"] == "listening for dnstap");
    let listen = found.next().and_then(|it| it["listen"].as_str()).unwrap();
    listen.strip_prefix("tcp://").unwrap().parse().unwrap()
}

/// The installed chart in a namespace.
pub(crate) struct Release {
    /// At first no pod runs.
    pub(crate) deployments: Vec<Deployment>,
}

impl Release {
    /// Installs the chart with two instances of the collector, and these flags.
    pub(crate) async fn install(server: &ApiServer, namespace: &str, collector: &[&str]) -> Self {
        let args = format!("collector.extraArgs={{{}}}", collector.join(","));
        let fullname = format!("fullnameOverride={namespace}");
        let flags = ["--set", &fullname, "--set", DELAY, "--set", &args];
        server.grant(namespace, &flags).await;
        let account = format!("{namespace}-collector");
        server.config_of(namespace, &account).await;
        let kubeconfig = server.folder().join(format!("{account}.kubeconfig"));
        let objects = format!("objectsNamespace={namespace}");
        let rendered = chart::render(namespace, &[&flags[..], &["--set", &objects]].concat());
        let mut deployments = Vec::new();
        for object in rendered {
            let name = object.name_any();
            if chart::kind_of(&object) == "Deployment" && name.starts_with(&account) {
                deployments.push(Deployment {
                    slices: Api::namespaced(server.client().await, namespace),
                    name,
                    spec: object.data["spec"].clone(),
                    kubeconfig: kubeconfig.clone(),
                    service: Service::start().await,
                    pods: Vec::new(),
                    workdir: Workdir::new(),
                });
            }
        }
        Self { deployments }
    }

    pub(crate) async fn start(&mut self) {
        for deployment in &mut self.deployments {
            for _ in 0..deployment.spec["replicas"].as_u64().unwrap() {
                deployment.start().await;
            }
        }
    }

    /// The `dnstap` lines of a Corefile.
    pub(crate) fn dnstap(&self) -> String {
        let line = |it: &Deployment| format!("    dnstap tcp://{} full\n", it.service.address());
        self.deployments.iter().map(line).collect()
    }
}

/// A Deployment of collectors, and its Service. Fields are in the order in which they are dropped.
pub(crate) struct Deployment {
    /// Its name, also of its Service.
    name: String,
    spec: Value,
    slices: Api<EndpointSlice>,
    kubeconfig: PathBuf,
    service: Service,
    pods: Vec<Pod>,
    /// Deployments that roll out at once need separate logs: the log of a pod's start is read.
    workdir: Workdir,
}

struct Pod {
    program: Program,
    address: SocketAddr,
    /// The name of its EndpointSlice.
    slice: String,
}

/// The number in each pod's address in the cluster. The address is unreachable: an EndpointSlice cannot have a loopback
/// address.
static NUMBER: AtomicU8 = AtomicU8::new(1);

impl Deployment {
    /// Starts a pod, and adds it to the Service when it is ready.
    pub(crate) async fn start(&mut self) {
        let pod = &self.spec["template"]["spec"];
        let container = &pod["containers"][0];
        assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/readyz");
        let args: Vec<String> = serde_json::from_value(container["args"].clone()).unwrap();
        // All flags but those about its network.
        let elsewhere = ["--admin=", "--log-format=", "--listen=", "--inspect="];
        let is_kept = |arg: &String| !elsewhere.iter().any(|flag| arg.starts_with(flag));
        let listen = "--listen=tcp://127.0.0.1:0".to_owned();
        let args = args.into_iter().filter(is_kept).chain([listen]).collect();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let (slice, ip) = (format!("pod-{number}"), format!("192.0.2.{number}"));
        self.list(&slice, &ip).await;
        let environment = vec![
            ("KUBECONFIG", self.kubeconfig.display().to_string()),
            ("POD_IPS", ip),
        ];
        let folder = self.workdir.path();
        let program = Program::start_with(folder, "collector", args, environment).await;
        program.ready().await;
        let address = listens(&program);
        self.service.add(address);
        self.pods.push(Pod {
            program,
            address,
            slice,
        });
    }

    /// The other collectors know of a pod by the EndpointSlices of its Service.
    async fn list(&self, slice: &str, ip: &str) {
        let slice = json!({
            "metadata": { "name": slice, "labels": { "kubernetes.io/service-name": self.name } },
            "addressType": "IPv4",
            "endpoints": [{ "addresses": [ip] }],
            "ports": [{ "name": "dnstap-tcp", "port": 6000, "protocol": "TCP" }],
        });
        let slice = serde_json::from_value(slice).unwrap();
        let made = self.slices.create(&PostParams::default(), &slice).await;
        made.unwrap();
    }

    async fn forget(&self, pod: &Pod) {
        self.service.remove(pod.address);
        let params = DeleteParams::default();
        self.slices.delete(&pod.slice, &params).await.unwrap();
    }

    /// Ends its oldest pod like a kubelet.
    pub(crate) async fn end(&mut self) {
        let grace = &self.spec["template"]["spec"]["terminationGracePeriodSeconds"];
        let grace = Duration::from_secs(grace.as_u64().unwrap());
        let mut old = self.pods.remove(0);
        old.program.process().signal(rustix::process::Signal::TERM);
        sleep(LAG).await;
        let ended = old.program.process().ended();
        assert!(ended.is_none(), "it reads until nobody is sent to it");
        self.forget(&old).await;
        let status = eventually_within(grace, "the end of the pod", async || {
            let process = old.program.process();
            process.ended().ok_or_else(|| process.log())
        })
        .await;
        assert_eq!(status.code(), Some(0));
    }

    /// Replaces its pods one by one, like the Deployment's controller and the kubelets.
    pub(crate) async fn roll(&mut self) {
        let update = &self.spec["strategy"]["rollingUpdate"];
        assert_eq!(
            (&update["maxSurge"], &update["maxUnavailable"]),
            (&json!(1), &json!(0))
        );
        let settled = self.spec["minReadySeconds"].as_u64().unwrap();
        for _ in 0..self.pods.len() {
            self.start().await;
            if is_long() {
                sleep(Duration::from_secs(settled)).await;
            }
            self.end().await;
        }
    }

    /// How many dnstap streams its pods read.
    pub(crate) async fn streams(&self) -> Result<f64, String> {
        let mut sum = 0.0;
        for pod in &self.pods {
            let streams = pod.program.admin();
            let streams = streams.metric("egress_collector_connections", &[]).await;
            sum += streams.map_err(|error| error.to_string())?;
        }
        Ok(sum)
    }
}
