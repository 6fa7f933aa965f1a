//! How OpenShift admits a pod by SecurityContextConstraints: it fills in what the pod leaves out, and then validates.
//!
//! The rules and the texts of the reasons are those of the admission plugin (tests/fixtures/openshift/README.md has its
//! commit). Not covered: sysctls, flex volumes, user namespaces, ephemeral containers, and seccomp by annotation. Reasons
//! that the plugin repeats for each container stand here once.

mod validation;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Capabilities, PodSpec, SELinuxOptions, SeccompProfile, SecurityContext,
};
use serde::Deserialize;

const UID_RANGE: &str = "openshift.io/sa.scc.uid-range";
const GROUPS: &str = "openshift.io/sa.scc.supplemental-groups";
const MCS: &str = "openshift.io/sa.scc.mcs";

const RUNTIME_DEFAULT: [&str; 2] = ["runtime/default", "docker/default"];

/// A field that is not here is refused, so that a rule without code does not go unseen.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[allow(clippy::struct_excessive_bools, reason = "so it is in OpenShift's API")]
pub struct SecurityContextConstraints {
    pub allow_host_dir_volume_plugin: bool,
    #[serde(rename = "allowHostIPC")]
    pub allow_host_ipc: bool,
    pub allow_host_network: bool,
    #[serde(rename = "allowHostPID")]
    pub allow_host_pid: bool,
    pub allow_host_ports: bool,
    pub allow_privilege_escalation: Option<bool>,
    pub allow_privileged_container: bool,
    pub allowed_capabilities: Vec<String>,
    pub default_add_capabilities: Vec<String>,
    pub required_drop_capabilities: Vec<String>,
    pub read_only_root_filesystem: bool,
    pub run_as_user: UserStrategy,
    pub fs_group: GroupStrategy,
    pub supplemental_groups: GroupStrategy,
    pub se_linux_context: SELinuxStrategy,
    pub seccomp_profiles: Vec<String>,
    pub volumes: Option<Vec<String>>,
    pub users: Vec<String>,
    pub groups: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(tag = "type", deny_unknown_fields)]
pub enum UserStrategy {
    MustRunAs {
        uid: i64,
    },
    #[serde(rename_all = "camelCase")]
    MustRunAsRange {
        uid_range_min: Option<i64>,
        uid_range_max: Option<i64>,
    },
    MustRunAsNonRoot,
    #[default]
    RunAsAny,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(tag = "type", deny_unknown_fields)]
pub enum GroupStrategy {
    MustRunAs {
        #[serde(default)]
        ranges: Vec<Range>,
    },
    #[default]
    RunAsAny,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    pub min: i64,
    pub max: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(tag = "type", deny_unknown_fields)]
pub enum SELinuxStrategy {
    #[serde(rename_all = "camelCase")]
    MustRunAs {
        #[serde(default)]
        se_linux_options: SELinuxOptions,
    },
    #[default]
    RunAsAny,
}

impl SecurityContextConstraints {
    /// The pod as it would be created in a namespace with these annotations.
    ///
    /// # Errors
    /// The reasons for its refusal.
    pub fn admit(
        &self,
        annotations: &BTreeMap<String, String>,
        pod: &PodSpec,
    ) -> Result<PodSpec, Vec<String>> {
        let mut constraints = self.clone();
        constraints.allocate(annotations);
        let mut pod = pod.clone();
        constraints.set_defaults(&mut pod);
        let reasons = constraints.validate(&pod);
        if reasons.is_empty() {
            Ok(pod)
        } else {
            Err(reasons)
        }
    }

    /// Takes from the namespace's annotations what the constraints leave open.
    fn allocate(&mut self, annotations: &BTreeMap<String, String>) {
        let groups = annotations.get(GROUPS).or(annotations.get(UID_RANGE));
        let groups = groups.map_or_else(Vec::new, |blocks| blocks.split(',').map(block).collect());
        if let UserStrategy::MustRunAsRange {
            uid_range_min: min @ None,
            uid_range_max: max @ None,
        } = &mut self.run_as_user
        {
            let range = block(&annotations[UID_RANGE]);
            (*min, *max) = (Some(range.min), Some(range.max));
        }
        if let GroupStrategy::MustRunAs { ranges } = &mut self.fs_group
            && ranges.is_empty()
        {
            // Only the first group.
            let Range { min, .. } = groups[0];
            ranges.push(Range { min, max: min });
        }
        if let GroupStrategy::MustRunAs { ranges } = &mut self.supplemental_groups
            && ranges.is_empty()
        {
            *ranges = groups;
        }
        if let SELinuxStrategy::MustRunAs { se_linux_options } = &mut self.se_linux_context {
            let level = &mut se_linux_options.level;
            level.get_or_insert_with(|| annotations[MCS].clone());
        }
    }

    /// Fills in what the pod and its containers leave out.
    pub fn set_defaults(&self, pod: &mut PodSpec) {
        let of_pod = pod.security_context.get_or_insert_default();
        if of_pod.supplemental_groups.is_none() {
            of_pod.supplemental_groups = self.supplemental_groups.first().map(|group| vec![group]);
        }
        of_pod.fs_group = of_pod.fs_group.or(self.fs_group.first());
        if of_pod.se_linux_options.is_none() {
            of_pod.se_linux_options = self.se_linux_context.options().cloned();
        }
        if of_pod.seccomp_profile.is_none() {
            let first = self.seccomp_profiles.iter().find(|it| *it != "*");
            of_pod.seccomp_profile = first.map(|profile| seccomp_profile(profile));
        }
        let of_pod = of_pod.clone();
        let containers = pod.init_containers.iter_mut().flatten();
        for container in containers.chain(&mut pod.containers) {
            let own = container.security_context.get_or_insert_default();
            let uid = own.run_as_user.or(of_pod.run_as_user);
            if uid.is_none() {
                own.run_as_user = self.run_as_user.first();
            }
            if own.run_as_non_root.or(of_pod.run_as_non_root).is_none() {
                let is_not_root = match uid.or(own.run_as_user) {
                    Some(uid) => uid > 0,
                    None => matches!(self.run_as_user, UserStrategy::MustRunAsNonRoot),
                };
                own.run_as_non_root = is_not_root.then_some(true);
            }
            self.set_capabilities(own);
            if self.read_only_root_filesystem {
                own.read_only_root_filesystem.get_or_insert(true);
            }
            if self.allow_privilege_escalation == Some(false) {
                own.allow_privilege_escalation.get_or_insert(false);
            }
        }
    }

    fn set_capabilities(&self, own: &mut SecurityContext) {
        let asked = own.capabilities.clone().unwrap_or_default();
        let (added, dropped) = (
            asked.add.unwrap_or_default(),
            asked.drop.unwrap_or_default(),
        );
        let adds = self.default_add_capabilities.iter();
        let mut add: Vec<String> = adds.filter(|it| !dropped.contains(it)).cloned().collect();
        let mut drop = self.required_drop_capabilities.clone();
        if add.iter().all(|it| added.contains(it)) && drop.iter().all(|it| dropped.contains(it)) {
            return;
        }
        for (all, asked) in [(&mut add, added), (&mut drop, dropped)] {
            all.extend(asked);
            all.sort();
            all.dedup();
        }
        let some = |all: Vec<String>| (!all.is_empty()).then_some(all);
        own.capabilities = Some(Capabilities {
            add: some(add),
            drop: some(drop),
        });
    }
}

impl UserStrategy {
    fn first(&self) -> Option<i64> {
        match self {
            Self::MustRunAs { uid } => Some(*uid),
            Self::MustRunAsRange { uid_range_min, .. } => *uid_range_min,
            Self::MustRunAsNonRoot | Self::RunAsAny => None,
        }
    }
}

impl GroupStrategy {
    fn first(&self) -> Option<i64> {
        match self {
            Self::MustRunAs { ranges } => Some(ranges[0].min),
            Self::RunAsAny => None,
        }
    }
}

impl SELinuxStrategy {
    fn options(&self) -> Option<&SELinuxOptions> {
        match self {
            Self::MustRunAs { se_linux_options } => Some(se_linux_options),
            Self::RunAsAny => None,
        }
    }
}

/// An annotation's block: `START/SIZE` or `START-END`.
fn block(text: &str) -> Range {
    let number = |text: &str| -> i64 { text.parse().expect("a number") };
    if let Some((start, size)) = text.split_once('/') {
        let min = number(start);
        return Range {
            min,
            max: min + number(size) - 1,
        };
    }
    let (start, end) = text.split_once('-').expect("START-END");
    Range {
        min: number(start),
        max: number(end),
    }
}

fn seccomp_profile(name: &str) -> SeccompProfile {
    let (kind, file) = match name.strip_prefix("localhost/") {
        Some(file) => ("Localhost", Some(file.to_owned())),
        None if RUNTIME_DEFAULT.contains(&name) => ("RuntimeDefault", None),
        None => panic!("{name}"),
    };
    SeccompProfile {
        type_: kind.to_owned(),
        localhost_profile: file,
    }
}
