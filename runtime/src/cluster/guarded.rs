//! An object that may fail to decode. Its failure must not cost the list or the watch that it came in.
//!
//! kube's `DeserializeGuard` does not fit: this type drops `managedFields`, half of a large object, before it decodes.

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error},
};
use serde_json::Value;

use crate::store::ObjectKey;

/// A decoded object, or why it does not decode.
#[derive(Clone, Debug)]
pub(crate) struct Guarded<K> {
    pub(crate) key: ObjectKey,
    /// `metadata.resourceVersion`.
    pub(crate) version: Option<String>,
    /// Without `managedFields`.
    pub(crate) decoded: Result<K, String>,
}

/// The part of `metadata` that identifies an object.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    namespace: Option<String>,
    name: Option<String>,
    resource_version: Option<String>,
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Guarded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut value = Value::deserialize(deserializer)?;
        if let Some(Value::Object(metadata)) = value.get_mut("metadata") {
            metadata.remove("managedFields");
        }
        let metadata = value.get("metadata").unwrap_or(&Value::Null);
        let metadata = Metadata::deserialize(metadata).map_err(D::Error::custom)?;
        Ok(Self {
            key: ObjectKey {
                namespace: metadata.namespace.unwrap_or_default(),
                name: metadata.name.unwrap_or_default(),
            },
            version: metadata.resource_version,
            decoded: K::deserialize(value).map_err(|error| error.to_string()),
        })
    }
}

#[cfg(test)]
mod tests {
    use proto::api::DnsNameResolver;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_does_not_decode_still_has_its_name_and_its_reason() {
        let object = |name: Value| {
            json!({
                "apiVersion": "network.openshift.io/v1alpha1",
                "kind": "DNSNameResolver",
                "metadata": { "name": "a", "namespace": "x", "managedFields": [{ "manager": "m" }] },
                "spec": { "name": name },
            })
        };
        let list = json!([object(json!("www.example.com.")), object(json!(7))]);
        let list: Vec<Guarded<DnsNameResolver>> = serde_json::from_value(list).unwrap();
        for object in &list {
            assert_eq!(object.key.to_string(), "x/a");
        }
        let good = list[0].decoded.as_ref().unwrap();
        assert_eq!(good.metadata.managed_fields, None);
        let fault = list[1].decoded.as_ref().unwrap_err();
        assert!(fault.contains("expected a string"), "{fault}");
    }
}
