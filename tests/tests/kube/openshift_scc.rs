//! Which of OpenShift's SecurityContextConstraints admit the chart's pods.

use std::{collections::BTreeMap, fs, path::Path};

use k8s_openapi::api::core::v1::{ContainerPort, PodSpec, ProjectedVolumeSource, Volume};
use kube::{ResourceExt, api::DynamicObject};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tests::{
    chart::{self, CENTRAL, COLLECTOR, OVN_WRITER, kind_of},
    openshift_scc::SecurityContextConstraints,
};

const NAMESPACE: &str = "egress-by-name";

/// OpenShift allocates them to each namespace.
fn annotations() -> BTreeMap<String, String> {
    let annotations = [
        ("uid-range", "1000680000/10000"),
        ("supplemental-groups", "1000690000/10000"),
        ("mcs", "s0:c26,c15"),
    ];
    let full = annotations.map(|(key, value)| (format!("openshift.io/sa.scc.{key}"), value.into()));
    full.into()
}

fn fixture<T: DeserializeOwned>(name: &str) -> T {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/openshift");
    let text = fs::read_to_string(folder.join(name)).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}

fn stock() -> BTreeMap<String, SecurityContextConstraints> {
    fixture("scc.yaml")
}

fn render(flags: &[&str]) -> Vec<DynamicObject> {
    let values = chart::folder().join("ci/openshift-values.yaml");
    let values = ["--values", values.to_str().unwrap()];
    chart::render(NAMESPACE, &[&values, flags].concat())
}

/// The pod of a workload, with what the API server adds before the constraints are asked.
fn pod(objects: &[DynamicObject], kind: &str, name: &str) -> PodSpec {
    let spec = &chart::find(objects, kind, name).data["spec"]["template"]["spec"];
    as_created(serde_json::from_value(spec.clone()).unwrap())
}

fn as_created(mut pod: PodSpec) -> PodSpec {
    pod.volumes.get_or_insert_default().push(Volume {
        name: "kube-api-access".to_owned(),
        projected: Some(ProjectedVolumeSource::default()),
        ..Volume::default()
    });
    if pod.host_network == Some(true) {
        let ports = pod.containers.iter_mut().flat_map(|it| &mut it.ports);
        for port in ports.flatten() {
            port.host_port = Some(port.container_port);
        }
    }
    pod
}

fn writer(objects: &[DynamicObject]) -> PodSpec {
    pod(objects, "DaemonSet", OVN_WRITER)
}

/// The constraints of the chart.
fn own(objects: &[DynamicObject]) -> SecurityContextConstraints {
    let name = format!("{NAMESPACE}-{OVN_WRITER}");
    let object = chart::find(objects, "SecurityContextConstraints", &name);
    serde_json::from_value(object.data.clone()).unwrap()
}

fn refused(constraints: &SecurityContextConstraints, pod: &PodSpec) -> Vec<String> {
    let admitted = constraints.admit(&annotations(), pod);
    admitted.expect_err("a refusal")
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cases {
    validation: Vec<Case>,
    defaults: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Case {
    name: String,
    constraints: SecurityContextConstraints,
    pod: Value,
    container: Value,
    spec: Value,
    reasons: Vec<String>,
    gives: BTreeMap<String, Value>,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            name: String::new(),
            constraints: SecurityContextConstraints::default(),
            pod: json!({}),
            container: json!({}),
            spec: json!({}),
            reasons: Vec::new(),
            gives: BTreeMap::new(),
        }
    }
}

impl Case {
    fn pod(&self) -> PodSpec {
        let container = json!({"name": "c", "securityContext": self.container});
        let mut spec = json!({"securityContext": self.pod, "containers": [container]});
        let other = self.spec.as_object().unwrap().clone();
        spec.as_object_mut().unwrap().extend(other);
        serde_json::from_value(spec).unwrap()
    }
}

#[test]
fn the_evaluator_has_the_plugins_rules() {
    let cases: Cases = fixture("cases.yaml");
    for case in cases.validation {
        let reasons = case.constraints.validate(&case.pod());
        assert_eq!(reasons, case.reasons, "{}", case.name);
    }
    for case in cases.defaults {
        let pod = case.constraints.admit(&annotations(), &case.pod());
        let pod = serde_json::to_value(pod.unwrap()).unwrap();
        let given = |of: &str| case.gives.get(of).unwrap_or(&json!({})).clone();
        let container = &pod["containers"][0];
        assert_eq!(pod["securityContext"], given("pod"), "{}", case.name);
        assert_eq!(
            container["securityContext"],
            given("container"),
            "{}",
            case.name
        );
    }
}

/// No binding is needed: every account may use these constraints.
#[test]
fn restricted_v2_admits_all_pods_but_the_one_with_ovns_sockets() {
    let restricted = &stock()["restricted-v2"];
    let with_secrets = [
        "--set=collector.instances=2",
        "--set=dnstap.tls.enabled=true",
        "--set=dnstap.tls.secretName=certificate",
        "--set=dnstap.secret.name=secret",
    ];
    let no_writer = ["--set=ovnWriter.mode=none"];
    let mut admitted = 0;
    for flags in [&[][..], &with_secrets, &CENTRAL, &no_writer] {
        let objects = render(flags);
        for object in objects.iter().filter(|it| kind_of(it) == "Deployment") {
            let name = object.name_any();
            let pod = restricted.admit(&annotations(), &pod(&objects, "Deployment", &name));
            let pod = pod.unwrap_or_else(|reasons| panic!("{name}: {reasons:?}"));
            let of_pod = pod.security_context.unwrap();
            assert_eq!(of_pod.fs_group, Some(1_000_690_000));
            let of_container = pod.containers[0].security_context.as_ref().unwrap();
            assert_eq!(of_container.run_as_user, Some(1_000_680_000));
            admitted += 1;
        }
        let has_socket = objects.iter().any(|it| kind_of(it) == "DaemonSet");
        let is_scc = |it: &DynamicObject| kind_of(it) == "SecurityContextConstraints";
        assert_eq!(objects.iter().any(is_scc), has_socket, "{flags:?}");
    }
    assert!(admitted >= 6, "{admitted}");
}

#[test]
fn only_its_own_constraints_admit_the_ovn_writer() {
    for flags in [
        &[][..],
        &["--set=ovnWriter.hostNetwork=true"],
        &["--set=ovnWriter.interconnect.runAsUser=801,ovnWriter.interconnect.runAsGroup=802"],
        &["--set-json=ovnWriter.extraVolumes=[{\"name\":\"v\",\"configMap\":{\"name\":\"c\"}}]"],
    ] {
        let objects = render(flags);
        let writer = writer(&objects);
        let pod = own(&objects).admit(&annotations(), &writer);
        let pod = pod.unwrap_or_else(|reasons| panic!("{flags:?}: {reasons:?}"));
        let label = pod.security_context.unwrap().se_linux_options.unwrap();
        let label = (label.type_.unwrap(), label.level.unwrap());
        assert_eq!(label, ("spc_t".to_owned(), "s0:c26,c15".to_owned()));
        for (name, constraints) in stock() {
            let is_admitted = constraints.admit(&annotations(), &writer).is_ok();
            assert_eq!(is_admitted, name == "privileged", "{name}");
        }
    }
}

#[test]
fn only_the_ovn_writer_may_use_its_constraints() {
    let objects = render(&[]);
    let object = |kind: &str, name: &str| &chart::find(&objects, kind, name).data;
    let name = format!("{OVN_WRITER}-scc");
    let rule = json!({
        "apiGroups": ["security.openshift.io"],
        "resources": ["securitycontextconstraints"],
        "resourceNames": [format!("{NAMESPACE}-{OVN_WRITER}")],
        "verbs": ["use"],
    });
    assert_eq!(object("Role", &name)["rules"], json!([rule]));
    let account = json!({"kind": "ServiceAccount", "name": OVN_WRITER, "namespace": NAMESPACE});
    let binding = object("RoleBinding", &name);
    assert_eq!(binding["subjects"], json!([account]));
    assert_eq!(binding["roleRef"]["name"], json!(name));
    let used = writer(&objects).service_account_name;
    assert_eq!(used.as_deref(), Some(OVN_WRITER));
    let own = own(&objects);
    assert!(own.users.is_empty() && own.groups.is_empty());
    let used = pod(&objects, "Deployment", COLLECTOR).service_account_name;
    assert_eq!(used.as_deref(), Some(COLLECTOR));
}

/// Each change is one that the ovn-writer does not need, with a part of the reason against it.
#[test]
fn the_constraints_of_the_ovn_writer_admit_nothing_else() {
    let objects = render(&[]);
    let (own, writer) = (own(&objects), writer(&objects));
    let of_pod = |security: Value| json!({"securityContext": security});
    let of_container = |security: Value| -> Value {
        let container = json!({"name": "other", "securityContext": security});
        json!({"containers": [container]})
    };
    let drop = json!({"drop": ["ALL"], "add": ["NET_ADMIN"]});
    for (change, reason) in [
        (json!({"hostNetwork": true}), "Host network"),
        (json!({"hostPID": true}), "Host PID"),
        (json!({"hostIPC": true}), "Host IPC"),
        (of_pod(json!({"runAsUser": 1})), "must be: 0"),
        (of_pod(json!({"fsGroup": 1})), "not an allowed group"),
        (
            of_pod(json!({"supplementalGroups": [1]})),
            "not an allowed group",
        ),
        (
            of_pod(json!({"seLinuxOptions": {"type": "container_t", "level": "s0:c26,c15"}})),
            "must be spc_t",
        ),
        (
            of_pod(json!({"seLinuxOptions": {"type": "spc_t", "level": "s0"}})),
            "must be s0:c26,c15",
        ),
        (
            of_pod(
                json!({"seLinuxOptions": {"type": "spc_t", "user": "u", "level": "s0:c26,c15"}}),
            ),
            ".user",
        ),
        (
            of_pod(
                json!({"seLinuxOptions": {"type": "spc_t", "role": "r", "level": "s0:c26,c15"}}),
            ),
            ".role",
        ),
        (
            of_pod(json!({"seccompProfile": {"type": "Unconfined"}})),
            "unconfined is not",
        ),
        (
            of_pod(json!({"seccompProfile": {"type": "Localhost", "localhostProfile": "p"}})),
            "localhost/p is not",
        ),
        (
            of_container(json!({"privileged": true})),
            "Privileged containers",
        ),
        (
            of_container(json!({"allowPrivilegeEscalation": true})),
            "privilege escalation",
        ),
        (
            of_container(json!({"readOnlyRootFilesystem": false})),
            "ReadOnlyRootFilesystem",
        ),
        (
            of_container(json!({"capabilities": drop})),
            "may not be added",
        ),
        (of_container(json!({"runAsUser": 65532})), "must be: 0"),
        (
            of_container(json!({"seccompProfile": {"type": "Unconfined"}})),
            "unconfined is not",
        ),
    ] {
        let mut changed = serde_json::to_value(&writer).unwrap();
        merge(&mut changed, &change);
        let reasons = refused(&own, &serde_json::from_value(changed).unwrap());
        assert!(
            reasons.iter().all(|it| it.contains(reason)),
            "{change}: {reasons:?}"
        );
    }

    let mut with_port = writer.clone();
    with_port.containers[0].ports = Some(vec![ContainerPort {
        container_port: 9091,
        host_port: Some(9091),
        ..ContainerPort::default()
    }]);
    let reasons = refused(&own, &with_port);
    assert!(reasons[0].contains("Host ports"), "{reasons:?}");

    let other = [
        "configMap",
        "secret",
        "downwardAPI",
        "csi",
        "ephemeral",
        "image",
        "nfs",
        "iscsi",
    ];
    for kind in other.into_iter().chain(["persistentVolumeClaim"]) {
        let volume = json!({"name": "v", kind: {}});
        let mut with_volume = writer.clone();
        let volumes = with_volume.volumes.as_mut().unwrap();
        volumes.push(serde_json::from_value(volume).unwrap());
        let reasons = refused(&own, &with_volume);
        let reason = format!("{kind} volumes are not allowed to be used");
        assert!(
            reasons.len() == 1 && reasons[0].contains(&reason),
            "{reasons:?}"
        );
    }

    // Constraints know no path: docs/security.md says so.
    let mut with_root = writer.clone();
    let volumes = with_root.volumes.as_mut().unwrap();
    let paths = volumes.iter_mut().filter_map(|it| it.host_path.as_mut());
    paths.for_each(|it| it.path = "/".to_owned());
    assert!(own.admit(&annotations(), &with_root).is_ok());
}

/// Sets the fields of an object, and appends to arrays.
fn merge(value: &mut Value, change: &Value) {
    match (value, change) {
        (Value::Object(fields), Value::Object(changes)) => {
            for (key, change) in changes {
                merge(fields.entry(key).or_insert(Value::Null), change);
            }
        }
        (Value::Array(items), Value::Array(more)) => items.extend(more.clone()),
        (value, change) => *value = change.clone(),
    }
}

#[test]
fn the_ovn_writer_needs_all_that_its_constraints_allow() {
    let objects = render(&[]);
    let (own, writer) = (own(&objects), writer(&objects));
    let mut narrower = Vec::from([(); 3].map(|()| own.clone()));
    narrower[0].allow_host_dir_volume_plugin = false;
    narrower[1].seccomp_profiles.clear();
    narrower[2].run_as_user = stock()["restricted-v2"].run_as_user.clone();
    let volumes = own.volumes.as_ref().unwrap();
    for kind in volumes.iter().filter(|it| *it != "hostPath") {
        let mut without = own.clone();
        without.volumes.as_mut().unwrap().retain(|it| it != kind);
        narrower.push(without);
    }
    for constraints in narrower {
        refused(&constraints, &writer);
    }
}

/// OpenShift's own constraints refused the pods of this commit, with the text of its plugin.
#[test]
fn the_pods_of_dd7369f_are_refused() {
    let pods: BTreeMap<String, PodSpec> = fixture("pods-dd7369f.yaml");
    let stock = stock();
    let reasons = |constraints: &str, pod: &str| -> Vec<String> {
        refused(&stock[constraints], &as_created(pods[pod].clone()))
    };
    assert_eq!(
        reasons("restricted-v2", "collector"),
        [
            "spec.securityContext.fsGroup: Invalid value: []int64{65532}: 65532 is not an allowed group",
            "containers[0].runAsUser: Invalid value: 65532: must be in the ranges: [1000680000, 1000689999]",
        ]
    );
    let forbidden = "Forbidden: seccomp may not be set";
    let annotation = "seccomp.security.alpha.kubernetes.io";
    let seccomp = [
        format!("pod.metadata.annotations[{annotation}/pod]: {forbidden}"),
        format!("pod.metadata.annotations[container.{annotation}/ovn-writer]: {forbidden}"),
    ];
    // These were the constraints that its values bound.
    assert_eq!(
        reasons("hostmount-anyuid", "ovn-writer"),
        [
            &seccomp[0],
            r#"spec.securityContext.seLinuxOptions.level: Invalid value: "": must be s0:c26,c15"#,
            r#"spec.securityContext.seLinuxOptions.type: Invalid value: "spc_t": must be "#,
            r#"containers[0].seLinuxOptions.level: Invalid value: "": must be s0:c26,c15"#,
            r#"containers[0].seLinuxOptions.type: Invalid value: "spc_t": must be "#,
            &seccomp[1],
        ]
    );
    assert_eq!(reasons("hostmount-anyuid-v2", "ovn-writer"), seccomp);
    let privileged = &stock["privileged"];
    let writer = as_created(pods["ovn-writer"].clone());
    assert!(privileged.admit(&annotations(), &writer).is_ok());
    let collector = as_created(pods["collector"].clone());
    let nonroot = &stock["nonroot-v2"];
    assert!(nonroot.admit(&annotations(), &collector).is_ok());
}
