//! Flags for the sources of names.

use clap::Args;
use runtime::{
    UsageError,
    args::{StoreAddress, own_namespace, parse_namespace},
};

use crate::rules::Source;

/// The sources of names.
#[derive(Args, Clone, Debug)]
pub struct SourceArgs {
    /// The kinds of objects whose rules have names.
    ///
    /// The definition of each kind must be installed. The collector reports a missing one, tries again, and goes on with the others.
    #[arg(
        long,
        value_enum,
        value_name = "SOURCE",
        value_delimiter = ',',
        default_value = "egressfirewall"
    )]
    pub rules: Vec<Source>,

    /// The namespace of the DNSNameResolver objects of names in DNSResolvers.
    ///
    /// Not that of --objects-namespace: ovn-kubernetes deletes each object there that no EgressFirewall uses. Default: the namespace of the
    /// pod, and `egress-by-name` outside of a pod. policy-writer has the same flag and default.
    #[arg(long, value_name = "NAMESPACE", value_parser = parse_namespace)]
    pub dnsresolver_objects_namespace: Option<String>,
}

impl SourceArgs {
    /// Each source once.
    pub fn all(&self) -> Vec<Source> {
        let mut all = self.rules.clone();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The namespace of the DNSNameResolver objects of names in DNSResolvers.
    pub fn dnsresolver_objects_namespace(&self) -> String {
        let namespace = self.dnsresolver_objects_namespace.clone();
        namespace.unwrap_or_else(own_namespace)
    }

    /// # Errors
    /// The objects of two sources are in one namespace, or the store cannot have those of a source.
    pub fn check(&self, store: &StoreAddress, objects_namespace: &str) -> Result<(), UsageError> {
        if self.rules.contains(&Source::KubeOvn) && *store != StoreAddress::Kube {
            let words =
                "--rules kubeovn needs --store kube: a folder has only objects in namespaces";
            return Err(UsageError(words.to_owned()));
        }
        if ![Source::EgressFirewall, Source::DnsResolver]
            .iter()
            .all(|source| self.rules.contains(source))
            || self.dnsresolver_objects_namespace() != objects_namespace
        {
            return Ok(());
        }
        let words = "--dnsresolver-objects-namespace must not be the namespace of --objects-namespace: ovn-kubernetes deletes each object \
             there that no EgressFirewall uses";
        Err(UsageError(words.to_owned()))
    }
}
