//! What the constraints have against a pod.

use k8s_openapi::api::core::v1::{
    Capabilities, Container, PodSpec, SELinuxOptions, SeccompProfile, SecurityContext, Volume,
    VolumeProjection,
};
use serde_json::{Value, json};

use super::{
    GroupStrategy, RUNTIME_DEFAULT, SELinuxStrategy, SecurityContextConstraints, UserStrategy,
};

const SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/";

impl SecurityContextConstraints {
    /// The reasons against a pod, with nothing filled in; none if it is admitted.
    #[must_use]
    pub fn validate(&self, pod: &PodSpec) -> Vec<String> {
        let of_pod = pod.security_context.clone().unwrap_or_default();
        let path = "spec.securityContext";
        let fs_group: Vec<i64> = of_pod.fs_group.into_iter().collect();
        let mut reasons = self
            .fs_group
            .validate(&format!("{path}.fsGroup"), &fs_group);
        let groups = of_pod.supplemental_groups.unwrap_or_default();
        let groups_path = format!("{path}.supplementalGroups");
        reasons.extend(self.supplemental_groups.validate(&groups_path, &groups));
        let of_pod_seccomp = of_pod.seccomp_profile;
        reasons.extend(self.validate_seccomp("pod", of_pod_seccomp.as_ref()));
        let options = of_pod.se_linux_options;
        reasons.extend(self.se_linux_context.validate(path, options.as_ref()));
        for (name, is_asked, is_allowed) in [
            ("Network", pod.host_network, self.allow_host_network),
            ("PID", pod.host_pid, self.allow_host_pid),
            ("IPC", pod.host_ipc, self.allow_host_ipc),
        ] {
            if is_asked == Some(true) && !is_allowed {
                let words = if name == "Network" { "network" } else { name };
                let detail = format!("Host {words} is not allowed to be used");
                reasons.push(invalid(&format!("{path}.host{name}"), true, &detail));
            }
        }
        for (i, volume) in pod.volumes.iter().flatten().enumerate() {
            let kind = volume_kind(volume);
            if !self.allows_volume(&kind, volume) {
                let detail = format!("{kind} volumes are not allowed to be used");
                reasons.push(invalid(
                    &format!("spec.volumes[{i}]"),
                    format!("{kind:?}"),
                    &detail,
                ));
            }
        }
        let init = pod.init_containers.iter().flatten().enumerate();
        let init = init.map(|(i, container)| (format!("initContainers[{i}]"), container));
        let main = pod.containers.iter().enumerate();
        let main = main.map(|(i, container)| (format!("containers[{i}]"), container));
        for (path, container) in init.chain(main) {
            // What the container leaves out is the pod's.
            let mut own = container.security_context.clone().unwrap_or_default();
            own.run_as_user = own.run_as_user.or(of_pod.run_as_user);
            own.run_as_non_root = own.run_as_non_root.or(of_pod.run_as_non_root);
            own.se_linux_options = own.se_linux_options.or(options.clone());
            own.seccomp_profile = own.seccomp_profile.or(of_pod_seccomp.clone());
            reasons.extend(self.validate_container(&path, container, &own));
        }
        reasons
    }

    fn validate_container(
        &self,
        path: &str,
        container: &Container,
        own: &SecurityContext,
    ) -> Vec<String> {
        let mut reasons: Vec<String> = self.run_as_user.validate(path, own).into_iter().collect();
        let options = own.se_linux_options.as_ref();
        reasons.extend(self.se_linux_context.validate(path, options));
        let seccomp = own.seccomp_profile.as_ref();
        reasons.extend(self.validate_seccomp(&container.name, seccomp));
        if own.privileged == Some(true) && !self.allow_privileged_container {
            let detail = "Privileged containers are not allowed";
            reasons.push(invalid(&format!("{path}.privileged"), true, detail));
        }
        reasons.extend(self.validate_capabilities(path, own.capabilities.as_ref()));
        let ports = container.ports.iter().flatten();
        for port in ports.filter_map(|port| port.host_port) {
            if port > 0 && !self.allow_host_ports {
                let detail = "Host ports are not allowed to be used";
                reasons.push(invalid(&format!("{path}.hostPort"), port, detail));
            }
        }
        let read_only = own.read_only_root_filesystem;
        if self.read_only_root_filesystem && read_only != Some(true) {
            let detail = match read_only {
                None => "ReadOnlyRootFilesystem may not be nil and must be set to true",
                Some(_) => "ReadOnlyRootFilesystem must be set to true",
            };
            let path = format!("{path}.readOnlyRootFilesystem");
            reasons.push(invalid(&path, or_null(read_only), detail));
        }
        let escalation = own.allow_privilege_escalation;
        if self.allow_privilege_escalation == Some(false) && escalation != Some(false) {
            let detail = "Allowing privilege escalation for containers is not allowed";
            let path = format!("{path}.allowPrivilegeEscalation");
            reasons.push(invalid(&path, or_null(escalation), detail));
        }
        reasons
    }

    fn validate_capabilities(&self, path: &str, asked: Option<&Capabilities>) -> Vec<String> {
        let path = format!("{path}.capabilities");
        let (defaults, required) = (
            &self.default_add_capabilities,
            &self.required_drop_capabilities,
        );
        let Some(asked) = asked else {
            let is_complete = defaults.is_empty() && required.is_empty();
            let detail = "required capabilities are not set on the securityContext";
            let missing = (!is_complete).then(|| invalid(&path, "\"null\"", detail));
            return missing.into_iter().collect();
        };
        let allowed = &self.allowed_capabilities;
        if allowed.iter().any(|it| it == "*") {
            return Vec::new();
        }
        let added = asked.add.iter().flatten();
        let excess = added.filter(|it| !defaults.contains(it) && !allowed.contains(it));
        let excess = excess.map(|it| {
            let detail = "capability may not be added";
            invalid(&format!("{path}.add"), format!("{it:?}"), detail)
        });
        let dropped: Vec<&String> = asked.drop.iter().flatten().collect();
        let kept = required.iter().filter(|it| !dropped.contains(it));
        let kept = kept.map(|it| {
            let detail = format!("{it} is required to be dropped but was not found");
            invalid(&format!("{path}.drop"), format!("{dropped:?}"), &detail)
        });
        excess.chain(kept).collect()
    }

    /// `of` is "pod" or the name of a container: the plugin names the annotations of former Kubernetes versions.
    fn validate_seccomp(&self, of: &str, profile: Option<&SeccompProfile>) -> Option<String> {
        let path = match of {
            "pod" => format!("pod.metadata.annotations[{SECCOMP}pod]"),
            name => format!("pod.metadata.annotations[container.{SECCOMP}{name}]"),
        };
        let profile = profile.map_or_else(String::new, seccomp_name);
        let allowed = &self.seccomp_profiles;
        if allowed.is_empty() {
            return (!profile.is_empty())
                .then(|| format!("{path}: Forbidden: seccomp may not be set"));
        }
        let is_default = |name: &str| RUNTIME_DEFAULT.contains(&name);
        let fits =
            |it: &String| *it == "*" || *it == profile || is_default(it) && is_default(&profile);
        let valid = allowed.join(" ");
        (!allowed.iter().any(fits)).then(|| {
            format!("{path}: Forbidden: {profile} is not an allowed seccomp profile. Valid values are [{valid}]")
        })
    }

    fn allows_volume(&self, kind: &str, volume: &Volume) -> bool {
        // The API's older field decides.
        if kind == "hostPath" {
            return self.allow_host_dir_volume_plugin;
        }
        let Some(volumes) = &self.volumes else {
            return true;
        };
        let has = |kind: &str| volumes.iter().any(|it| it == kind || it == "*");
        let mut sources = volume
            .projected
            .iter()
            .flat_map(|it| it.sources.iter().flatten());
        has(kind) || kind == "projected" && has("secret") && sources.all(is_of_service_account)
    }
}

impl UserStrategy {
    fn validate(&self, path: &str, own: &SecurityContext) -> Option<String> {
        let user = format!("{path}.runAsUser");
        let non_root = format!("{path}.runAsNonRoot");
        match (self, own.run_as_user) {
            (Self::RunAsAny, _) => None,
            (Self::MustRunAsNonRoot, uid) => match (own.run_as_non_root, uid) {
                (None, None) => Some(format!("{non_root}: Required value: must be true")),
                (Some(false), _) => Some(invalid(&non_root, false, "must be true")),
                (_, Some(0)) => Some(invalid(&user, 0, "running with the root UID is forbidden")),
                _ => None,
            },
            (_, None) => Some(format!("{user}: Required value")),
            (Self::MustRunAs { uid }, Some(asked)) => {
                (*uid != asked).then(|| invalid(&user, asked, &format!("must be: {uid}")))
            }
            (
                Self::MustRunAsRange {
                    uid_range_min,
                    uid_range_max,
                },
                Some(asked),
            ) => {
                let (min, max) = (uid_range_min.unwrap(), uid_range_max.unwrap());
                let detail = format!("must be in the ranges: [{min}, {max}]");
                (!(min..=max).contains(&asked)).then(|| invalid(&user, asked, &detail))
            }
        }
    }
}

impl GroupStrategy {
    fn validate(&self, path: &str, groups: &[i64]) -> Vec<String> {
        let Self::MustRunAs { ranges } = self else {
            return Vec::new();
        };
        let list: Vec<String> = groups.iter().map(ToString::to_string).collect();
        let value = format!("[]int64{{{}}}", list.join(", "));
        if groups.is_empty() {
            let detail = "unable to validate empty groups against required ranges";
            return vec![invalid(path, value, detail)];
        }
        let is_in = |group: &i64| ranges.iter().any(|it| (it.min..=it.max).contains(group));
        let outside = groups.iter().filter(|group| !is_in(group));
        outside
            .map(|group| invalid(path, &value, &format!("{group} is not an allowed group")))
            .collect()
    }
}

impl SELinuxStrategy {
    fn validate(&self, path: &str, asked: Option<&SELinuxOptions>) -> Vec<String> {
        let Some(required) = self.options() else {
            return Vec::new();
        };
        let path = format!("{path}.seLinuxOptions");
        let Some(asked) = asked else {
            return vec![format!("{path}: Required value")];
        };
        let mut reasons = Vec::new();
        for (name, required, asked) in [
            ("level", &required.level, &asked.level),
            ("role", &required.role, &asked.role),
            ("type", &required.type_, &asked.type_),
            ("user", &required.user, &asked.user),
        ] {
            let text = |option: &Option<String>| option.clone().unwrap_or_default();
            let (required, asked) = (text(required), text(asked));
            let is_equal = match name {
                "level" => categories(&required) == categories(&asked),
                _ => required == asked,
            };
            if !is_equal {
                let detail = format!("must be {required}");
                reasons.push(invalid(
                    &format!("{path}.{name}"),
                    format!("{asked:?}"),
                    &detail,
                ));
            }
        }
        reasons
    }
}

/// The sensitivity of a level and its categories, whose order means nothing.
fn categories(level: &str) -> (&str, Vec<&str>) {
    let (sensitivity, categories) = level.split_once(':').unwrap_or((level, ""));
    let mut categories: Vec<&str> = categories.split(',').collect();
    categories.sort_unstable();
    (sensitivity, categories)
}

fn invalid(path: &str, value: impl ToString, detail: &str) -> String {
    format!("{path}: Invalid value: {}: {detail}", value.to_string())
}

fn or_null(value: Option<bool>) -> String {
    value.map_or_else(|| "\"null\"".to_owned(), |value| value.to_string())
}

fn seccomp_name(profile: &SeccompProfile) -> String {
    match (&*profile.type_, &profile.localhost_profile) {
        ("RuntimeDefault", _) => RUNTIME_DEFAULT[0].to_owned(),
        ("Unconfined", _) => "unconfined".to_owned(),
        ("Localhost", Some(file)) => format!("localhost/{file}"),
        other => panic!("{other:?}"),
    }
}

/// The kind of a volume, as constraints call it.
fn volume_kind(volume: &Volume) -> String {
    let volume = serde_json::to_value(volume).expect("a volume");
    let keys: Vec<&String> = volume.as_object().expect("an object").keys().collect();
    let kind = keys.into_iter().find(|key| *key != "name").expect("a kind");
    match &**kind {
        "cephfs" => "cephFS",
        "storageos" => "storageOS",
        "vsphereVolume" => "vsphere",
        kind => kind,
    }
    .to_owned()
}

/// Whether a pod's own token needs this part of a projected volume.
fn is_of_service_account(source: &VolumeProjection) -> bool {
    let mut source = serde_json::to_value(source).expect("a source");
    if let Some(Value::Object(token)) = source.get_mut("serviceAccountToken") {
        token.remove("expirationSeconds");
    }
    let certificate = |name: &str, key: &str| -> Value {
        json!({"configMap": {"name": name, "items": [{"key": key, "path": key}]}})
    };
    let field = json!({"apiVersion": "v1", "fieldPath": "metadata.namespace"});
    [
        json!({"serviceAccountToken": {"path": "token"}}),
        certificate("kube-root-ca.crt", "ca.crt"),
        certificate("openshift-service-ca.crt", "service-ca.crt"),
        json!({"downwardAPI": {"items": [{"path": "namespace", "fieldRef": field}]}}),
    ]
    .contains(&source)
}
