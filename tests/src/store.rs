//! The folder of `--store dir:PATH`, written and read as by an administrator.

use std::{
    fs,
    path::{Path, PathBuf},
};

use proto::api::{DnsNameResolver, ResolvedName};

/// The namespace of the `DNSNameResolver` objects unless a flag says otherwise.
pub const OBJECTS_NAMESPACE: &str = "ovn-kubernetes";

#[derive(Clone, Debug)]
pub struct Store {
    path: PathBuf,
}

impl Store {
    /// Creates a folder with an empty store.
    pub fn new(path: PathBuf) -> Self {
        fs::create_dir_all(&path).expect("a folder for the store");
        Self { path }
    }

    pub fn address(&self) -> String {
        format!("dir:{}", self.path.display())
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file of the namespace's EgressFirewall.
    pub fn egress_firewall(&self, namespace: &str) -> PathBuf {
        self.path
            .join(namespace)
            .join("egressfirewalls")
            .join("default.yaml")
    }

    /// Writes the namespace's EgressFirewall: it allows these names and denies everything else.
    pub fn allow(&self, namespace: &str, names: &[&str]) {
        let mut text = format!(
            "apiVersion: k8s.ovn.org/v1\nkind: EgressFirewall\nmetadata:\n  name: default\n  namespace: {namespace}\nspec:\n  egress:\n"
        );
        for name in names {
            text += &format!("  - type: Allow\n    to:\n      dnsName: \"{name}\"\n");
        }
        text += "  - type: Deny\n    to:\n      cidrSelector: 0.0.0.0/0\n";
        let file = self.egress_firewall(namespace);
        fs::create_dir_all(file.parent().expect("its folder")).expect("the namespace's folder");
        fs::write(file, text).expect("a manifest");
    }

    /// The folder of the `DNSNameResolver` objects.
    pub fn objects_folder(&self) -> PathBuf {
        self.path.join(OBJECTS_NAMESPACE).join("dnsnameresolvers")
    }

    /// Writes the `DNSNameResolver` of a name with these addresses in its status, atomically like the collector.
    pub fn write_status(&self, name: &str, addresses: &[&str]) {
        let address = |ip: &&str| {
            format!(
                "    - {{ip: \"{ip}\", ttlSeconds: 30, lastLookupTime: '2026-01-01T00:00:00Z'}}\n"
            )
        };
        let addresses = if addresses.is_empty() {
            " []\n".to_owned()
        } else {
            let list: String = addresses.iter().map(address).collect();
            format!("\n{list}")
        };
        self.write_entry(name, &format!("resolvedAddresses:{addresses}"));
    }

    fn write_entry(&self, name: &str, rest: &str) {
        let entry = format!("  - dnsName: \"{name}\"\n    {rest}");
        self.write_object(name, &format!("status:\n  resolvedNames:\n{entry}"));
    }

    /// Writes its `DNSNameResolver` with this text at its end, which is the status or nothing.
    pub fn write_object(&self, name: &str, status: &str) {
        let head =
            "apiVersion: network.openshift.io/v1alpha1\nkind: DNSNameResolver\nmetadata: {}\n";
        self.replace(name, &format!("{head}spec: {{name: \"{name}\"}}\n{status}"));
    }

    fn replace(&self, name: &str, text: &str) {
        let file = self.object_file(name);
        fs::create_dir_all(self.objects_folder()).expect("the objects' folder");
        let new = self
            .path
            .join(file.file_name().expect("a file"))
            .with_extension("new");
        fs::write(&new, text).expect("a manifest");
        fs::rename(new, file).expect("a manifest");
    }

    /// Removes the object that [`Store::write_status`] wrote.
    pub fn remove_object(&self, name: &str) {
        fs::remove_file(self.object_file(name)).expect("the manifest was there");
    }

    /// The file of the object of a name.
    pub fn object_file(&self, name: &str) -> PathBuf {
        let object = name.replace('*', "any").replace('.', "-");
        self.objects_folder().join(format!("dns-{object}end.yaml"))
    }

    /// All readable `DNSNameResolver` objects.
    pub fn objects(&self) -> Vec<DnsNameResolver> {
        let mut files: Vec<PathBuf> = fs::read_dir(self.objects_folder())
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| {
                path.extension()
                    .is_some_and(|extension| extension == "yaml")
            })
            .collect();
        files.sort();
        files
            .iter()
            .filter_map(|file| serde_saphyr::from_str(&fs::read_to_string(file).ok()?).ok())
            .collect()
    }

    pub fn object(&self, name: &str) -> Option<DnsNameResolver> {
        let mut objects = self.objects();
        objects.retain(|object| object.spec.name == name);
        objects.pop()
    }

    /// The entry of the looked-up name `name` in the status of `object`.
    pub fn resolved(&self, object: &str, name: &str) -> Option<ResolvedName> {
        let names = self.object(object)?.status?.resolved_names;
        names.into_iter().find(|entry| entry.dns_name == name)
    }
}
