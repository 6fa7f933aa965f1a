//! The manifests under `deploy/chart/files/crds` are those that the types give.

use std::{fs, path::Path};

use proto::api::{custom_resource_definitions, dns_resolver_definitions};

/// Set to anything to write the manifests instead of comparing them.
const UPDATE: &str = "UPDATE_GENERATED";

#[test]
fn the_manifests_are_current() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/chart/files/crds");
    let all = custom_resource_definitions().into_iter();
    for crd in all.chain(dns_resolver_definitions()) {
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
