//! The objects of the test.

use anyhow::Context;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use proto::api::EgressFirewall;
use runtime::UsageError;
use serde_json::{from_value, json};

use super::destination::Destination;
use crate::PROGRAM;

/// The name of the pod and of its container.
const NAME: &str = "connect";

/// Where the kubelet reads the last words of a container, which become part of the pod's status.
const LAST_WORDS: &str = "/dev/termination-log";

pub(super) fn namespace() -> Namespace {
    let mut namespace = Namespace::default();
    namespace.metadata.generate_name = Some(format!("{PROGRAM}-test-"));
    let labels = [
        ("app.kubernetes.io/managed-by", PROGRAM),
        ("pod-security.kubernetes.io/enforce", "restricted"),
    ];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    namespace.metadata.labels = Some(labels.into());
    namespace
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
pub(super) fn pod(image: &str, destinations: &[&Destination]) -> Pod {
    let mut command = vec![PROGRAM.to_owned(), NAME.to_owned()];
    command.push(format!("--file={LAST_WORDS}"));
    command.extend(destinations.iter().map(ToString::to_string));
    let pod = json!({
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
    from_value(pod).unwrap_or_default()
}

/// The last words of the container, or why it has not ended yet.
pub(super) fn message(pod: &Pod) -> Result<String, String> {
    let status = pod.status.as_ref();
    let containers = status.and_then(|it| it.container_statuses.as_deref());
    let state = containers
        .unwrap_or_default()
        .first()
        .and_then(|it| it.state.as_ref());
    let ended = state.and_then(|it| it.terminated.as_ref());
    if let Some(ended) = ended {
        return Ok(ended.message.clone().unwrap_or_default());
    }
    let waiting = state.and_then(|it| it.waiting.as_ref()?.reason.clone());
    let phase = status.and_then(|it| it.phase.clone());
    Err(waiting.or(phase).unwrap_or_default())
}
