//! The objects of the test.

use anyhow::Context;
use kube::core::DynamicObject;
use proto::api::EgressFirewall;
use runtime::UsageError;
use serde_json::{from_value, json};

use super::destination::Destination;
use crate::{PROGRAM, objects::Pod};

/// The name of the pod and of its container.
const NAME: &str = "connect";

/// Where the kubelet reads the last words of a container, which become part of the pod's status.
const LAST_WORDS: &str = "/dev/termination-log";

pub(super) fn namespace() -> anyhow::Result<DynamicObject> {
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {
            "generateName": format!("{PROGRAM}-test-"),
            "labels": {
                "app.kubernetes.io/managed-by": PROGRAM, "pod-security.kubernetes.io/enforce": "restricted",
            },
        },
    });
    from_value(namespace).context("the namespace")
}

/// Allows a name and the wildcard of another one, and denies the rest.
pub(super) fn firewall(
    allowed: &Destination,
    under_wildcard: &Destination,
) -> anyhow::Result<EgressFirewall> {
    let wildcard = under_wildcard.wildcard().ok_or_else(|| {
        UsageError(format!(
            "--under-wildcard {under_wildcard}: the name needs three labels"
        ))
    })?;
    let rule = |kind: &str, field: &str, value: &str| json!({"type": kind, "to": {field: value}});
    let spec = json!({"egress": [
        rule("Allow", "dnsName", allowed.name()),
        rule("Allow", "dnsName", &wildcard),
        rule("Deny", "cidrSelector", "0.0.0.0/0"),
        rule("Deny", "cidrSelector", "::/0"),
    ]});
    let spec = from_value(spec).context("the rules")?;
    Ok(EgressFirewall::new("default", spec))
}

/// The pod that connects. Its rights are those of the `restricted` Pod Security Standard.
pub(super) fn pod(image: &str, destinations: &[&Destination]) -> anyhow::Result<DynamicObject> {
    let mut command = vec![PROGRAM.to_owned(), NAME.to_owned()];
    command.push(format!("--file={LAST_WORDS}"));
    command.extend(destinations.iter().map(ToString::to_string));
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": NAME, "labels": {"app.kubernetes.io/managed-by": PROGRAM}},
        "spec": {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": 120,
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [{
                "name": NAME, "image": image, "command": command,
                "terminationMessagePath": LAST_WORDS, "terminationMessagePolicy": "FallbackToLogsOnError",
                "securityContext": {
                    "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
                    "readOnlyRootFilesystem": true,
                },
                "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}},
            }],
        },
    });
    from_value(pod).context("the pod")
}

/// The last words of the container, or why it has not ended yet.
pub(super) fn message(pod: &Pod) -> Result<String, String> {
    let state = pod.status.container_statuses.first().map(|it| &it.state);
    if let Some(ended) = state.and_then(|it| it.terminated.as_ref()) {
        return Ok(ended.message.clone().unwrap_or_default());
    }
    let waiting = state.and_then(|it| it.waiting.as_ref()?.reason.clone());
    let phase = pod.status.phase.clone();
    Err(waiting.or(phase).unwrap_or_default())
}
