//! The rules that the names of a window are compared with: those of the namespace, or of a file.

use std::{fmt::Debug, fs, path::Path};

use anyhow::{Context, anyhow, ensure};
use kube::{Api, Resource, api::ListParams, core::NamespaceResourceScope};
use proto::api::{DnsResolver, EgressFirewall, GenerateType, KnownName, Rules};
use runtime::UsageError;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::LearnArgs;
use crate::targets::Access;

/// The objects with rules: one EgressFirewall, or DNSResolvers that make NetworkPolicies. Without any, everything passes.
pub(super) enum Objects {
    Firewalls(Vec<EgressFirewall>),
    Resolvers(Vec<DnsResolver>),
}

impl Objects {
    /// Those of the file, or else of the namespace.
    ///
    /// # Errors
    /// [`UsageError`]: they cannot be read.
    pub(super) async fn read(args: &LearnArgs, access: Option<&Access>) -> anyhow::Result<Self> {
        let read = match args.policy {
            false => objects(args, access).await.map(Self::Firewalls),
            true => objects::<DnsResolver>(args, access).await.map(|mut all| {
                // The others make objects that restrict no pod by themselves.
                all.retain(|it| it.spec.generate_type == GenerateType::NetworkPolicy.name());
                Self::Resolvers(all)
            }),
        };
        read.map_err(|error| UsageError(format!("{error:#}")).into())
    }

    /// Their rules, with the addresses that `known` has for names.
    pub(super) fn rules(&self, known: &[KnownName]) -> Option<Rules> {
        match self {
            Self::Firewalls(all) => all.first().map(|it| Rules::of_firewall(&it.spec, known)),
            Self::Resolvers(all) => {
                let names = all.iter().flat_map(|it| &it.spec.domain_list);
                let names = names.map(String::as_str);
                (!all.is_empty()).then(|| Rules::of_resolvers(names, known))
            }
        }
    }
}

async fn objects<K>(args: &LearnArgs, access: Option<&Access>) -> anyhow::Result<Vec<K>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    K: Clone + Debug + DeserializeOwned,
{
    let (access, namespace) = match (&args.file, access, &args.namespace) {
        (Some(file), ..) => return of_file(file).with_context(|| file.display().to_string()),
        (None, Some(access), Some(namespace)) => (access, namespace),
        _ => return Err(anyhow!("--against needs --namespace or --file")),
    };
    let api = Api::<K>::namespaced(access.client.clone(), namespace);
    let params = ListParams::default();
    let listed = api.list(&params).await;
    let plural = K::plural(&());
    Ok(listed
        .with_context(|| format!("the {plural} of namespace {namespace} cannot be read"))?
        .items)
}

/// The objects of a kind in a file of YAML or JSON.
fn of_file<K: Resource<DynamicType = ()> + DeserializeOwned>(
    file: &Path,
) -> anyhow::Result<Vec<K>> {
    let kind = K::kind(&());
    let mut found: Vec<Value> = serde_saphyr::from_multiple(&fs::read_to_string(file)?)?;
    found.retain(|it| it.get("kind").is_some_and(|it| *it == *kind));
    ensure!(!found.is_empty(), "it has no {kind}");
    let found = found.into_iter().map(serde_json::from_value);
    Ok(found.collect::<Result<_, _>>()?)
}
