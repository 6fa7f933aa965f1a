//! A kube-apiserver with an etcd, as scripts/setup provides them: with RBAC and the CRDs of the chart.

use std::{
    collections::BTreeSet,
    fs,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::{Namespace, ServiceAccount},
    discovery::v1::EndpointSlice,
};
use kube::{
    Api, Client, Config, ResourceExt,
    api::{DynamicObject, PostParams},
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
    core::{ApiResource, GroupVersionKind, ObjectMeta},
};
use proto::api::EgressFirewall;
use rustix::process::Signal;
use serde_json::json;
use tokio::sync::Mutex;

use crate::{
    chart, coredns::free_port, process::Process, programs::tool, wait::eventually, workdir::Workdir,
};

mod definitions;
mod etcd;

pub use self::definitions::openshift_resolvers;

/// The advertised address, in the endpoints of the Service `default/kubernetes`. The guards refuse it in answers. It is
/// not the real address, since the tests must not depend on the machine's.
pub const ADVERTISED: &str = "198.18.0.1";

/// The token of the user `admin`, who may do everything.
const ADMIN_TOKEN: &str = "administrator";

/// The server's self-signed certificate.
const CERTIFICATE: &str = "certificates/apiserver.crt";

/// The server that concurrent tests share.
static SHARED: Mutex<Weak<ApiServer>> = Mutex::const_new(Weak::new());

static NAMESPACES: AtomicUsize = AtomicUsize::new(0);

/// A running API server, on ports of 127.0.0.1. It takes about three seconds to start.
#[derive(Debug)]
pub struct ApiServer {
    server: Kept,
    address: SocketAddr,
    etcd: Kept,
    etcd_address: SocketAddr,
    etcd_peer: SocketAddr,
    workdir: Workdir,
}

/// A process that ends with this value, and not with the test's thread that started it.
#[derive(Debug)]
struct Kept {
    process: Process,
    _thread: mpsc::Sender<()>,
}

impl ApiServer {
    pub async fn start() -> Self {
        let workdir = Workdir::new();
        // P-256 keys are quick to create; the server signs tokens of ServiceAccounts with it.
        let key = rcgen::KeyPair::generate().expect("a key");
        fs::write(workdir.join("sa.key"), key.serialize_pem()).expect("a key file");
        fs::write(workdir.join("sa.pub"), key.public_key_pem()).expect("a key file");
        let tokens = format!("{ADMIN_TOKEN},admin,admin,system:masters\n");
        fs::write(workdir.join("tokens.csv"), tokens).expect("a token file");
        fs::write(workdir.join("audit.yaml"), AUDIT_POLICY).expect("a policy file");
        // Another program may take a port between the check and its use.
        for _ in 0..5 {
            let [client, peer, address] = [free_port(), free_port(), free_port()];
            let kubeconfig = write_kubeconfig(workdir.path(), address, "admin", ADMIN_TOKEN);
            let mut etcd = etcd::start(workdir.path(), client, peer);
            let mut server = start_server(workdir.path(), client, address);
            if is_ready(&kubeconfig, [&mut etcd, &mut server]).await {
                let started = Self {
                    server,
                    address,
                    etcd,
                    etcd_address: client,
                    etcd_peer: peer,
                    workdir,
                };
                started.install_crds().await;
                return started;
            }
        }
        panic!(
            "no API server starts; logs are in {}",
            workdir.path().display()
        );
    }

    /// The server that concurrent tests share; it is never stopped.
    pub async fn shared() -> Arc<Self> {
        let mut shared = SHARED.lock().await;
        if let Some(server) = shared.upgrade() {
            return server;
        }
        let server = Arc::new(Self::start().await);
        *shared = Arc::downgrade(&server);
        server
    }

    /// Kills it; etcd stays.
    pub fn stop(&mut self) {
        self.server.process.kill();
    }

    /// Stops it (SIGSTOP): connections succeed, and there is no answer.
    pub fn pause(&self) {
        self.server.process.signal(Signal::STOP);
    }

    /// Starts it again at the same address.
    pub async fn start_again(&mut self) {
        self.server = start_server(self.workdir.path(), self.etcd_address, self.address);
        let kubeconfig = self.kubeconfig();
        let ready = is_ready(&kubeconfig, [&mut self.server]).await;
        assert!(
            ready,
            "the API server does not start again on {}",
            self.address
        );
    }

    /// The configuration of a client that may do everything.
    pub async fn config(&self) -> Config {
        read(&self.kubeconfig()).await.expect("a configuration")
    }

    /// A client that may do everything.
    pub async fn client(&self) -> Client {
        Client::try_from(self.config().await).expect("a client")
    }

    /// A kubeconfig of the administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        self.workdir.join("admin.kubeconfig")
    }

    /// The configuration of a client with the rights of a ServiceAccount. Its kubeconfig is written to
    /// `NAME.kubeconfig` in [`ApiServer::folder`].
    pub async fn config_of(&self, namespace: &str, name: &str) -> Config {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client().await, namespace);
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                audiences: Some(vec!["https://kubernetes.default.svc".to_owned()]),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let answer = accounts
            .create_token_request(name, &PostParams::default(), &request)
            .await;
        let status = answer.expect("a token").status;
        let token = status.and_then(|status| status.token).expect("its text");
        let path = write_kubeconfig(self.folder(), self.address, name, &token);
        read(&path).await.expect("a configuration")
    }

    /// The folder of its files and logs.
    pub fn folder(&self) -> &Path {
        self.workdir.path()
    }

    /// The requests of this user as (verb, resource), `resource/subresource` where there is one.
    pub fn asked_by(&self, user: &str) -> BTreeSet<(String, String)> {
        let asked = self.audit(user).into_iter();
        asked.filter_map(|event| what(&event)).collect()
    }

    fn audit(&self, user: &str) -> Vec<serde_json::Value> {
        let log = fs::read_to_string(self.workdir.join("audit.jsonl")).expect("the audit log");
        let events = log.lines().filter_map(|line| {
            let event: serde_json::Value = serde_json::from_str(line).ok()?;
            (event["user"]["username"] == user).then_some(event)
        });
        events.collect()
    }

    /// Creates a namespace for the caller alone.
    pub async fn namespace(&self) -> String {
        let number = NAMESPACES.fetch_add(1, Ordering::Relaxed);
        let name = format!("ns-{number}");
        self.make_namespace(&name).await;
        name
    }

    pub async fn make_namespace(&self, name: &str) {
        let namespaces: Api<Namespace> = Api::all(self.client().await);
        let namespace = Namespace {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let made = namespaces.create(&PostParams::default(), &namespace).await;
        made.expect("a namespace");
    }

    /// Makes the Service `dns` of CoreDNS servers in [`Network`](crate::network::Network)s, as far as the collector reads
    /// it.
    pub async fn make_dns_service(&self, namespace: &str, servers: &[IpAddr]) {
        let slice = json!({
            "metadata": { "name": "dns", "labels": { "kubernetes.io/service-name": "dns" } },
            "addressType": "IPv4",
            "endpoints": servers.iter().map(|it| json!({ "addresses": [it] })).collect::<Vec<_>>(),
            "ports": [{ "name": "dns", "port": 5353, "protocol": "UDP" }],
        });
        let slice: EndpointSlice = serde_json::from_value(slice).expect("an object");
        let slices: Api<EndpointSlice> = Api::namespaced(self.client().await, namespace);
        let made = slices.create(&PostParams::default(), &slice).await;
        made.expect("the server takes it");
    }

    /// Makes a ServiceAccount. In a cluster the controller-manager makes `default` in every namespace.
    pub async fn make_account(&self, namespace: &str, name: &str) {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client().await, namespace);
        let account = serde_json::from_value(json!({ "metadata": { "name": name } }));
        let account = account.expect("an account");
        let made = accounts.create(&PostParams::default(), &account).await;
        made.expect("the server takes it");
    }

    /// Makes an EgressFirewall that allows these names.
    pub async fn allow(&self, namespace: &str, names: &[&str]) {
        let rules = names.iter().map(
            |name| json!({ "type": "Allow", "to": { "dnsName": name.trim_end_matches('.') } }),
        );
        let firewall = serde_json::from_value(json!({
            "metadata": { "name": "default" },
            "spec": { "egress": rules.collect::<Vec<_>>() },
        }));
        let firewall: EgressFirewall = firewall.expect("an EgressFirewall");
        let firewalls: Api<EgressFirewall> = Api::namespaced(self.client().await, namespace);
        let made = firewalls.create(&PostParams::default(), &firewall).await;
        made.expect("the server takes it");
    }

    /// Creates the objects of a file with manifests.
    pub async fn create(&self, file: &Path) {
        let text = fs::read_to_string(file).expect("a manifest");
        for object in chart::objects(&text) {
            self.make(&object).await;
        }
    }

    pub async fn make(&self, object: &DynamicObject) {
        let types = object.types.clone().expect("apiVersion and kind");
        let (group, version) = types
            .api_version
            .split_once('/')
            .unwrap_or(("", &types.api_version));
        let kind = GroupVersionKind::gvk(group, version, &types.kind);
        let resource = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> = match &object.metadata.namespace {
            Some(namespace) => Api::namespaced_with(self.client().await, namespace, &resource),
            None => Api::all_with(self.client().await, &resource),
        };
        let what = format!("{} {} is made", types.kind, object.name_any());
        eventually(&what, async || {
            match api.create(&PostParams::default(), object).await {
                // The kind is served a moment after its CRD was made.
                Err(kube::Error::Api(status)) if status.code == 404 => Err(status.message.clone()),
                made => Ok(made.unwrap_or_else(|error| panic!("{what}: {error}"))),
            }
        })
        .await;
    }

    /// Creates the ServiceAccounts of the chart's programs, [`chart::COLLECTOR`] and [`chart::OVN_WRITER`], and their
    /// rights, in a namespace that also has the objects. The flags are those of `helm template`.
    pub async fn grant(&self, namespace: &str, flags: &[&str]) {
        let objects = format!("objectsNamespace={namespace}");
        let flags = [&["--set", &objects], flags].concat();
        for object in chart::render(namespace, &flags) {
            let is_right = object.types.as_ref().is_some_and(|types| {
                types.api_version.starts_with("rbac.") || types.kind == "ServiceAccount"
            });
            if is_right {
                self.make(&object).await;
            }
        }
    }
}

/// The verb and resource of an audit event.
fn what(event: &serde_json::Value) -> Option<(String, String)> {
    let reference = &event["objectRef"];
    let resource = reference["resource"].as_str()?;
    let resource = match reference["subresource"].as_str() {
        Some(subresource) => format!("{resource}/{subresource}"),
        None => resource.to_owned(),
    };
    Some((event["verb"].as_str()?.to_owned(), resource))
}

/// A path in the folder `deploy`.
pub fn deploy(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../deploy")
        .join(path)
}

/// Whether a kube-apiserver was built; the tests require it, the benches do not.
pub fn is_built() -> bool {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../target/tools/kube-apiserver")
        .is_file()
}

/// Records each user's requests, once they are answered or, for a watch, begun.
const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
";

fn start_server(folder: &Path, etcd: SocketAddr, address: SocketAddr) -> Kept {
    let args = vec![
        format!("--etcd-servers=http://{etcd}"),
        format!("--bind-address={}", address.ip()),
        format!("--secure-port={}", address.port()),
        "--cert-dir=certificates".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        // An administrator may let the API server check who sets owner references that block a deletion.
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement".to_owned(),
        "--token-auth-file=tokens.csv".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        "--service-account-key-file=sa.pub".to_owned(),
        "--service-account-signing-key-file=sa.key".to_owned(),
        format!("--advertise-address={ADVERTISED}"),
        "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
        "--audit-policy-file=audit.yaml".to_owned(),
        "--audit-log-path=audit.jsonl".to_owned(),
        // It must end within its grace period even while watches are open.
        "--shutdown-delay-duration=0s".to_owned(),
    ];
    keep(folder, "kube-apiserver", tool("kube-apiserver"), args)
}

/// Starts a process on a thread that waits for the end of the returned value.
fn keep(folder: &Path, name: &'static str, program: PathBuf, args: Vec<String>) -> Kept {
    let folder = folder.to_owned();
    let (started, process) = mpsc::channel();
    let (keeper, kept) = mpsc::channel::<()>();
    thread::spawn(move || {
        let process = Process::start(&folder, name, &program, args, &[]);
        if started.send(process).is_ok() {
            let _dropped = kept.recv();
        }
    });
    Kept {
        process: process.recv().expect("a process"),
        _thread: keeper,
    }
}

/// Waits until the server is ready; `false` if a process ends before.
async fn is_ready<const N: usize>(kubeconfig: &Path, mut processes: [&mut Kept; N]) -> bool {
    eventually("the API server is ready", async || {
        if processes
            .iter_mut()
            .any(|kept| kept.process.ended().is_some())
        {
            return Ok(false);
        }
        let config = read(kubeconfig).await.map_err(|error| error.to_string())?;
        let client = Client::try_from(config).map_err(|error| error.to_string())?;
        let request = http::Request::get("/readyz").body(Vec::new());
        let answer = client.request_text(request.expect("a request")).await;
        answer.map(|_| true).map_err(|error| error.to_string())
    })
    .await
}

fn write_kubeconfig(folder: &Path, address: SocketAddr, name: &str, token: &str) -> PathBuf {
    let text = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
        "clusters": [{ "name": "test", "cluster": {
            "server": format!("https://{address}"),
            "certificate-authority": folder.join(CERTIFICATE),
        } }],
        "users": [{ "name": "test", "user": { "token": token } }],
    });
    let path = folder.join(format!("{name}.kubeconfig"));
    fs::write(&path, text.to_string()).expect("a kubeconfig");
    path
}

async fn read(kubeconfig: &Path) -> Result<Config, KubeconfigError> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await
}
