//! The manifests under `deploy/chart/files/crds` are those that the types give.

use std::{fs, path::Path};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use proto::api::{custom_resource_definitions, dns_resolver_definitions};
use serde_json::{Value, json};

/// Set to anything to write the manifests instead of comparing them.
const UPDATE: &str = "UPDATE_GENERATED";

fn definitions() -> impl Iterator<Item = CustomResourceDefinition> {
    let all = custom_resource_definitions().into_iter();
    all.chain(dns_resolver_definitions())
}

#[test]
fn the_manifests_are_current() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/chart/files/crds");
    for crd in definitions() {
        let name = crd.metadata.name.clone().unwrap();
        let path = folder.join(format!("{name}.yaml"));
        let generated = format!(
            "# Generated from the types of proto::api; see proto/tests/crds.rs.\n{}",
            serde_saphyr::to_string(&crd).unwrap()
        );
        if std::env::var_os(UPDATE).is_some() {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&path, &generated).unwrap();
        }
        assert!(
            fs::read_to_string(&path).unwrap_or_default() == generated,
            "{} is not what the types give; run this test with {UPDATE}=1",
            path.display(),
        );
    }
}

#[test]
fn the_manifests_say_what_the_types_say() {
    for crd in definitions() {
        let yaml = serde_saphyr::to_string(&crd).unwrap();
        let read: Value = serde_saphyr::from_str(&yaml).unwrap();
        assert_eq!(read, serde_json::to_value(&crd).unwrap());
    }
}

/// Properties that the programs rely on, whatever the types become.
#[test]
fn the_schemas_have_the_limits_of_the_deployed_ones() {
    let [resolver, firewall] = custom_resource_definitions().map(|crd| {
        assert_eq!(crd.spec.scope, "Namespaced");
        let version = crd.spec.versions.into_iter().next().unwrap();
        assert!(version.subresources.unwrap().status.is_some());
        serde_json::to_value(version.schema.unwrap().open_api_v3_schema).unwrap()
    });
    let name = "/properties/spec/properties/name";
    let names = "/properties/status/properties/resolvedNames";
    let entry = "/properties/status/properties/resolvedNames/items";
    let addresses = &format!("{entry}/properties/resolvedAddresses");
    let pattern = r"^(\*\.)?([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\.){2,}$";
    for (place, field, expected) in [
        ("", "required", json!(["spec"])),
        (name, "pattern", json!(pattern)),
        (name, "maxLength", json!(254)),
        (
            name,
            "x-kubernetes-validations/0/rule",
            json!("self == oldSelf"),
        ),
        (names, "x-kubernetes-list-type", json!("atomic")),
        (entry, "properties/dnsName/pattern", json!(pattern)),
        (entry, "properties/dnsName/maxLength", json!(254)),
        (entry, "required", json!(["dnsName", "resolvedAddresses"])),
        (
            entry,
            "properties/conditions/x-kubernetes-list-type",
            json!("atomic"),
        ),
        (
            entry,
            "properties/resolutionFailures/format",
            json!("int32"),
        ),
        (addresses, "x-kubernetes-list-type", json!("atomic")),
        (
            addresses,
            "items/required",
            json!(["ip", "lastLookupTime", "ttlSeconds"]),
        ),
        (
            addresses,
            "items/properties/ttlSeconds/format",
            json!("int32"),
        ),
        (
            addresses,
            "items/properties/lastLookupTime/format",
            json!("date-time"),
        ),
    ] {
        let pointer = format!("{place}/{field}");
        assert_eq!(resolver.pointer(&pointer), Some(&expected), "{pointer}");
    }
    let rule = "/properties/spec/properties/egress/items";
    for (place, field, expected) in [
        ("", "required", json!(["spec"])),
        (
            "",
            "properties/metadata/properties/name/pattern",
            json!("^default$"),
        ),
        ("", "properties/spec/required", json!(["egress"])),
        (rule, "required", json!(["to", "type"])),
        (rule, "properties/to/minProperties", json!(1)),
        (rule, "properties/to/maxProperties", json!(1)),
        (
            rule,
            "properties/ports/items/required",
            json!(["port", "protocol"]),
        ),
    ] {
        let pointer = format!("{place}/{field}");
        assert_eq!(firewall.pointer(&pointer), Some(&expected), "{pointer}");
    }
    for schema in [resolver, firewall] {
        let text = schema.to_string();
        assert!(!text.contains("\"default\"") && !text.contains("\"nullable\""));
    }
}
