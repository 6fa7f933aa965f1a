//! `egress corefile patch --live`: changes CoreDNS's ConfigMap in the cluster, and waits until CoreDNS streams.

mod maps;

use std::{
    io::{self, IsTerminal, Write},
    net::SocketAddr,
    time::Duration,
};

use anyhow::{Context, anyhow, bail};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, PostParams, Preconditions},
};
use runtime::{UsageError, store::ObjectKey};

use self::maps::Maps;
use super::{CUSTOM, KEY, Line, PatchArgs, findings, parse, usage, warn};
use crate::{
    PROGRAM,
    check::{Endpoints, find, list, wait_for_streams},
    objects::{Deployment, Service},
    output,
    targets::{Access, COMPONENT},
};

/// Where platforms have the Corefile.
const PLACES: [&str; 3] = [
    "kube-system/coredns",
    "kube-system/rke2-coredns-rke2-coredns",
    "openshift-dns/dns-default",
];

/// The port of a collector's Service for the forwarder, over UDP.
const HOLD_PORT: &str = "hold";

/// The namespace of OpenShift's DNS.
const OPENSHIFT: &str = "openshift-dns";

/// Labels and annotations of programs that write a ConfigMap again.
const OWNERS: [(&str, &str); 5] = [
    ("meta.helm.sh/", "Helm"),
    ("argocd.argoproj.io/", "Argo CD"),
    ("kustomize.toolkit.fluxcd.io/", "Flux"),
    ("eks.amazonaws.com/", "the EKS add-on"),
    ("objectset.rio.cattle.io/", "k3s or RKE2"),
];

/// The label of [`CUSTOM`] if this command has made it.
const MADE: (&str, &str) = ("app.kubernetes.io/managed-by", PROGRAM);

/// The kubelet writes a changed ConfigMap within some 90 s, CoreDNS reads it within 45 s, and a probe comes back within 30 s.
const PATIENCE: Duration = Duration::from_secs(180);

/// Returns whether CoreDNS streams.
pub(super) async fn run(args: &PatchArgs) -> anyhow::Result<bool> {
    let access = Access::new(&args.cluster).await?;
    let found = Found::new(&access.client, args.corefile.clone()).await?;
    let scope = args.input.scope.scope();
    let (new, remarks) = match &args.hold {
        Some(given) => {
            let forwarders = match given.is_empty() && !args.remove {
                true => forwarders(&access).await?,
                false => given.clone(),
            };
            let forwarders = (!args.remove).then_some(&*forwarders);
            usage(found.maps.with_hold(forwarders, &scope))?
        }
        None => {
            let lines = match args.input.line.lines() {
                lines if lines.is_empty() => found.lines(&access, args).await?,
                lines => lines,
            };
            let new = usage(found.maps.patched(&lines, &scope, args.remove))?;
            let corefile = usage(parse(new.corefile(), &new.imports()))?;
            let remarks = match args.remove {
                true => Vec::new(),
                false => findings(&corefile, &lines, &scope),
            };
            (new, remarks)
        }
    };
    warn(&remarks);
    let corefile = usage(parse(new.corefile(), &new.imports()))?;
    let ObjectKey { namespace, name } = &found.key;
    let diff = found.maps.diff(&new, namespace, name);
    if diff.is_empty() {
        output::line("No change is needed.")?;
    } else {
        output::line(diff.trim_end())?;
        found.warn_of_owner(&new);
    }
    if !args.apply {
        return Ok(true);
    }
    if !diff.is_empty() {
        if !args.yes && !is_confirmed()? {
            bail!("not applied");
        }
        if found.maps.main != new.main {
            found.write(name, Some(&found.main), &new.main).await?;
        }
        if found.maps.custom != new.custom {
            let custom = found.custom.as_ref();
            found.write(CUSTOM, custom, &new.custom).await?;
        }
        output::line("Applied. CoreDNS loads it within two minutes.")?;
        let mut all = corefile.blocks.iter().flat_map(|it| &it.directives);
        if !all.any(|it| it.name == "reload") {
            let hint = "The Corefile has no `reload`: restart CoreDNS's pods now.";
            output::line(hint)?;
        }
    }
    if args.remove || args.hold.is_some() {
        return Ok(true);
    }
    let targets = access.targets().await.map_err(|UsageError(why)| {
        UsageError(format!(
            "the streams cannot be seen, run `egress check` later: {why}"
        ))
    })?;
    let patience = PATIENCE * u32::from(!diff.is_empty());
    let report = wait_for_streams(&targets, patience).await;
    output::line(&report.text())?;
    Ok(report.outcome()?)
}

/// The port `hold` of each collector's Service.
async fn forwarders(access: &Access) -> anyhow::Result<Vec<SocketAddr>> {
    let api = Api::<Service>::namespaced(access.client.clone(), &access.namespace);
    let services = seen(list(api, &format!("{COMPONENT}=collector")).await)?;
    let address = |service: &Service| {
        let mut ports = service.spec.ports.iter();
        let port = ports.find(|it| it.name.as_deref() == Some(HOLD_PORT))?;
        let ip = service.spec.cluster_ip.parse().ok()?;
        Some(SocketAddr::new(ip, port.port))
    };
    let found: Vec<SocketAddr> = services.iter().filter_map(address).collect();
    if found.is_empty() {
        let namespace = &access.namespace;
        return Err(refusal(format!(
            "namespace {namespace} has no Service of a collector with a port `{HOLD_PORT}`: set hold.enabled in the chart, or give --hold=ADDRESS:PORT"
        )));
    }
    Ok(found)
}

/// The ConfigMaps in the cluster.
struct Found {
    api: Api<ConfigMap>,
    key: ObjectKey,
    main: ConfigMap,
    custom: Option<ConfigMap>,
    maps: Maps,
}

impl Found {
    async fn new(client: &Client, key: Option<ObjectKey>) -> anyhow::Result<Self> {
        let known = PLACES.iter().filter_map(|it| it.parse().ok());
        let places = key.map_or_else(|| known.collect(), |key| vec![key]);
        for key in places {
            let api = Api::<ConfigMap>::namespaced(client.clone(), &key.namespace);
            let Some(main) = seen(find(api.clone(), &key.name).await)? else {
                continue;
            };
            if key.namespace == OPENSHIFT {
                return Err(refusal(
                    "OpenShift's DNS operator owns the Corefile, and undoes a change: docs/openshift.md has the ways to stream",
                ));
            }
            let custom = seen(find(api.clone(), CUSTOM).await)?;
            let custom_data = custom.as_ref().and_then(|it| it.data.clone());
            let maps = Maps {
                main: main.data.clone().unwrap_or_default(),
                custom: custom_data.unwrap_or_default(),
            };
            if !maps.main.contains_key(KEY) {
                return Err(refusal(format!(
                    "ConfigMap {key} has no data under `{KEY}`"
                )));
            }
            return Ok(Self {
                api,
                key,
                main,
                custom,
                maps,
            });
        }
        let deployments = Api::<Deployment>::namespaced(client.clone(), "kube-system");
        Err(match seen(find(deployments, "kube-dns").await)? {
            Some(_) => refusal(
                "the cluster's DNS is kube-dns, as on GKE. It has no dnstap: only look-ups work, see docs/openshift.md#look-ups-alone",
            ),
            None => refusal("no ConfigMap of CoreDNS is found: name it by --corefile"),
        })
    }

    /// The lines of the collectors' Services. Of a Service with several ports, that which the Corefile names.
    async fn lines(&self, access: &Access, args: &PatchArgs) -> anyhow::Result<Vec<Line>> {
        let api = Api::<Service>::namespaced(access.client.clone(), &access.namespace);
        let services = seen(list(api, &format!("{COMPONENT}=collector")).await)?;
        let corefile = usage(parse(self.maps.corefile(), &self.maps.imports()))?;
        let endpoints = services.iter().map(Endpoints::of);
        let endpoints = endpoints.filter_map(|it| it.wanted(&corefile).cloned());
        let line = |endpoint| Line {
            endpoint,
            extra: args.input.line.extra.clone(),
        };
        let lines: Vec<Line> = endpoints.map(line).collect();
        if lines.is_empty() {
            let namespace = &access.namespace;
            return Err(refusal(format!(
                "namespace {namespace} has no Service of a collector: name it by --release-namespace, or give --dnstap"
            )));
        }
        Ok(lines)
    }

    fn warn_of_owner(&self, new: &Maps) {
        let (labels, annotations) = (self.main.labels(), self.main.annotations());
        let marks = labels.keys().chain(annotations.keys());
        let mut owners = marks.filter_map(|mark| OWNERS.iter().find(|it| mark.starts_with(it.0)));
        if let Some((_, owner)) = owners.next().filter(|_| self.maps.main != new.main) {
            let _closed = writeln!(
                io::stderr(),
                "warning: {owner} manages ConfigMap {} and may undo this: docs/install.md#corefiles-that-another-program-writes",
                self.key
            );
        }
    }

    /// Writes, makes or deletes a ConfigMap. One that was changed meanwhile is refused.
    async fn write(
        &self,
        name: &str,
        old: Option<&ConfigMap>,
        data: &maps::Data,
    ) -> anyhow::Result<()> {
        let params = PostParams {
            field_manager: Some(PROGRAM.to_owned()),
            ..PostParams::default()
        };
        let mut map = old.cloned().unwrap_or_else(|| {
            let label = (MADE.0.to_owned(), MADE.1.to_owned());
            let mut map = ConfigMap::default();
            map.metadata.name = Some(name.to_owned());
            map.metadata.labels = Some([label].into());
            map
        });
        map.data = Some(data.clone());
        let is_made = map.labels().get(MADE.0).is_some_and(|it| it == MADE.1);
        let answer: Result<(), kube::Error> = async {
            if old.is_none() {
                self.api.create(&params, &map).await?;
            } else if is_made && data.is_empty() {
                let version = Preconditions {
                    resource_version: map.resource_version(),
                    uid: None,
                };
                let params = DeleteParams::default().preconditions(version);
                self.api.delete(name, &params).await?;
            } else {
                self.api.replace(name, &params, &map).await?;
            }
            Ok(())
        }
        .await;
        match answer {
            Err(kube::Error::Api(status)) if status.code == 409 => {
                bail!("ConfigMap {name} was changed meanwhile: run the command again")
            }
            answer => answer.with_context(|| format!("ConfigMap {name} is not changed")),
        }
    }
}

fn refusal(problem: impl Into<String>) -> anyhow::Error {
    UsageError(problem.into()).into()
}

fn seen<T>(seen: Result<T, crate::check::Unseen>) -> anyhow::Result<T> {
    seen.map_err(|unseen| anyhow!(unseen.0))
}

/// Asks at a terminal; a script is not asked.
fn is_confirmed() -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        return Ok(true);
    }
    write!(io::stderr(), "Apply this change? [y/N] ").context("stderr")?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).context("stdin")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
