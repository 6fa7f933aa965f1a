//! `IPMap`, `dns.k8s.delta10.nl/v1alpha1`: the addresses of each name of a `DNSResolver`.

use kube::{CustomResource, Resource, core::ObjectMeta};
use serde::{Deserialize, Serialize, Serializer, ser::SerializeStruct};

/// The addresses of each name of the `DNSResolver` of the same name. Its field is `data`, so it has no `spec`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Resource)]
#[resource(inherit = "IpMapDefinition")]
pub struct IpMap {
    /// The metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The names and their addresses.
    #[serde(default)]
    pub data: Option<IpMapData>,
}

/// The names, and the addresses of each.
// The derived type has them as `spec`.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[kube(
    group = "dns.k8s.delta10.nl",
    schema = "disabled",
    version = "v1alpha1",
    kind = "IPMap",
    root = "IpMapDefinition",
    plural = "ipmaps",
    singular = "ipmap",
    namespaced,
    doc = "The addresses of the names of the DNSResolver of the same name. Output only: changes are undone"
)]
pub struct IpMapData {
    /// One entry for each name of `spec.domainList`.
    pub domains: Vec<IpList>,
}

/// One name and its addresses.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct IpList {
    /// The addresses as CIDR blocks of one address, such as `192.0.2.1/32`, in order.
    pub ips: Vec<String>,
    /// The name as it is in `spec.domainList`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
}

impl Serialize for IpMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("IPMap", 4)?;
        object.serialize_field("apiVersion", &Self::api_version(&()))?;
        object.serialize_field("kind", &Self::kind(&()))?;
        object.serialize_field("metadata", &self.metadata)?;
        match &self.data {
            Some(data) => object.serialize_field("data", data)?,
            None => object.skip_field("data")?,
        }
        object.end()
    }
}
