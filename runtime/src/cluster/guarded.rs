//! An object that may not decode, so that it costs itself alone and not the list or the watch that it came in.
//!
//! Not kube's `DeserializeGuard`: this one drops `managedFields`, half of a large object, before it decodes, and copies
//! nothing.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error},
};
use serde_json::Value;

/// An object as it decoded, or why it does not.
#[derive(Clone, Debug)]
pub(crate) struct Guarded<K> {
    /// Without `managedFields`.
    meta: ObjectMeta,
    pub(crate) decoded: Result<K, String>,
}

impl<'de, K: DeserializeOwned + Resource> Deserialize<'de> for Guarded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut value = Value::deserialize(deserializer)?;
        if let Some(Value::Object(metadata)) = value.get_mut("metadata") {
            metadata.remove("managedFields");
        }
        match K::deserialize(&value) {
            Ok(object) => Ok(Self {
                meta: object.meta().clone(),
                decoded: Ok(object),
            }),
            Err(error) => {
                let metadata = value.get("metadata").unwrap_or(&Value::Null);
                Ok(Self {
                    meta: ObjectMeta::deserialize(metadata).map_err(D::Error::custom)?,
                    decoded: Err(error.to_string()),
                })
            }
        }
    }
}

impl<K: Resource> Resource for Guarded<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(dt)
    }

    fn group(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::group(dt)
    }

    fn version(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::version(dt)
    }

    fn plural(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(dt)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
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
            assert_eq!(object.meta().name.as_deref(), Some("a"));
            assert_eq!(object.meta().managed_fields, None);
        }
        let good = list[0].decoded.as_ref().unwrap();
        assert_eq!(good.metadata.managed_fields, None);
        let fault = list[1].decoded.as_ref().unwrap_err();
        assert!(fault.contains("expected a string"), "{fault}");
    }
}
