//! Fields that decode and have no effect.

use k8s_openapi::api::networking::v1::NetworkPolicy;

use super::{
    CrdNetworkSet, DnsNameResolver, DnsResolver, EgressFirewall, IpMap, KubeOvnDnsNameResolver,
    NetworkSet,
};

/// A kind of object. Its author may write fields that decode and have no effect.
pub trait Lint {
    /// The path of the first such field, as in `spec.egress.0.to`, and why it has no effect.
    fn lint(&self) -> Option<(String, &'static str)> {
        None
    }
}

impl Lint for EgressFirewall {
    fn lint(&self) -> Option<(String, &'static str)> {
        let index = self.spec.egress.iter().position(|it| it.to.is_empty())?;
        let reason = "a rule without a destination, such as `dnsName`";
        Some((format!("spec.egress.{index}.to"), reason))
    }
}

impl Lint for CrdNetworkSet {}
impl Lint for DnsNameResolver {}
impl Lint for DnsResolver {}
impl Lint for IpMap {}
impl Lint for KubeOvnDnsNameResolver {}
impl Lint for NetworkPolicy {}
impl Lint for NetworkSet {}
