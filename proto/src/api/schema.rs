//! The CustomResourceDefinitions of the objects, and the parts of their schemas that attributes cannot express.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;
use schemars::{Schema, SchemaGenerator, json_schema};

use super::{DnsNameResolver, DnsResolver, EgressFirewall, GenerateType, IpMapDefinition};

/// The CustomResourceDefinitions of `DNSNameResolver` and `EgressFirewall`. They accept the same objects as the
/// definitions that OpenShift and ovn-kubernetes deploy.
pub fn custom_resource_definitions() -> [CustomResourceDefinition; 2] {
    let mut resolver = DnsNameResolver::crd();
    schemas(&mut resolver).for_each(as_deployed);
    let mut firewall = EgressFirewall::crd();
    for schema in schemas(&mut firewall) {
        as_deployed(schema);
        one_a_namespace(schema);
    }
    [resolver, firewall]
}

/// The CustomResourceDefinitions of `DNSResolver` and `IPMap`. They accept the same objects as those of
/// dns-resolution-operator (`config/crd/bases`, commit caa8c7d381dd52e0bd913bd9fa847f9a6655cb25).
pub fn dns_resolver_definitions() -> [CustomResourceDefinition; 2] {
    let mut resolver = DnsResolver::crd();
    for schema in schemas(&mut resolver) {
        as_deployed(schema);
        schema.required = None;
        let spec = property(schema, "spec");
        if let Some(kind) = spec.and_then(|spec| property(spec, "generateType")) {
            let default = GenerateType::NetworkPolicy.name();
            kind.default = Some(JSON(default.into()));
        }
        if let Some(status) = property(schema, "status") {
            status.required = Some(vec!["ready".to_owned()]);
        }
    }
    let mut map = IpMapDefinition::crd();
    for schema in schemas(&mut map) {
        as_deployed(schema);
        schema.required = None;
        let properties = schema.properties.get_or_insert_default();
        if let Some(data) = properties.remove("spec") {
            properties.insert("data".to_owned(), data);
        }
    }
    [resolver, map]
}

fn property<'a>(schema: &'a mut JSONSchemaProps, name: &str) -> Option<&'a mut JSONSchemaProps> {
    schema.properties.as_mut()?.get_mut(name)
}

/// The schema of each version.
fn schemas(crd: &mut CustomResourceDefinition) -> impl Iterator<Item = &mut JSONSchemaProps> {
    crd.spec
        .versions
        .iter_mut()
        .filter_map(|version| version.schema.as_mut()?.open_api_v3_schema.as_mut())
}

/// The only allowed name of an `EgressFirewall` is `default`: one per namespace.
fn one_a_namespace(schema: &mut JSONSchemaProps) {
    let name = JSONSchemaProps {
        type_: Some("string".to_owned()),
        pattern: Some("^default$".to_owned()),
        ..Default::default()
    };
    let metadata = JSONSchemaProps {
        type_: Some("object".to_owned()),
        properties: Some([("name".to_owned(), name)].into()),
        ..Default::default()
    };
    schema
        .properties
        .get_or_insert_default()
        .insert("metadata".to_owned(), metadata);
}

/// Removes properties that the derived schema takes from Rust: the type names, and `null` for an `Option`. It also
/// removes the default of a missing list, because the API server would write empty lists.
fn as_deployed(schema: &mut JSONSchemaProps) {
    schema.title = None;
    schema.default = None;
    schema.nullable = None;
    for property in schema
        .properties
        .iter_mut()
        .flat_map(|all| all.values_mut())
    {
        as_deployed(property);
    }
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => as_deployed(items),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => items.iter_mut().for_each(as_deployed),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        as_deployed(values);
    }
}

/// The schema of a [`DnsName`](super::DnsName).
pub(super) fn dns_name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 254,
        "pattern": r"^(\*\.)?([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\.){2,}$",
    })
}

/// The deployed pattern. It has no group, so `^` and `$` each bind to one alternative only.
pub(super) fn rule_type(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "pattern": "^Allow|Deny$",
    })
}

/// A `metav1.LabelSelector`.
pub(super) fn label_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchExpressions": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": {"type": "string"},
                        "operator": {"type": "string"},
                        "values": {"type": "array", "items": {"type": "string"}},
                    },
                },
            },
            "matchLabels": {"type": "object", "additionalProperties": {"type": "string"}},
        },
    })
}

/// A list of `metav1.Condition` with the limits of the API conventions.
pub(super) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "type": {
                    "type": "string",
                    "maxLength": 316,
                    "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                },
                "status": {
                    "type": "string",
                    "enum": ["True", "False", "Unknown"],
                },
                "reason": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "message": {
                    "type": "string",
                    "maxLength": 32768,
                },
                "lastTransitionTime": {
                    "type": "string",
                    "format": "date-time",
                },
                "observedGeneration": {
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                },
            },
        },
    })
}
