//! ovn-kubernetes' flag: which program writes the address sets.

use std::collections::BTreeMap;

use super::{
    facts::Facts,
    report::{Finding, Topic},
};
use crate::objects::Pod;

/// The flag by which ovn-kubernetes uses DNSNameResolver objects.
const FLAG: &str = "--enable-dns-name-resolver";

/// The variable of its images' start script, which its Helm chart sets.
const VARIABLE: &str = "OVN_ENABLE_DNSNAMERESOLVER";

/// Whether ovn-kubernetes runs with its flag.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum OvnFlag {
    On,
    Off,
    /// The pods of ovn-kubernetes are not in this namespace, or they or their ConfigMaps cannot be seen.
    Unseen,
}

impl OvnFlag {
    pub(crate) fn of(facts: &Facts) -> Self {
        let Ok(pods) = &facts.ovn_kubernetes.pods else {
            return Self::Unseen;
        };
        if pods.is_empty() {
            return Self::Unseen;
        }
        let configs = &facts.ovn_kubernetes.configs;
        let maps = configs.iter().flatten().flatten();
        let mut texts = maps.flat_map(|map| map.data.iter().flat_map(BTreeMap::values));
        match pods.iter().any(has_flag) || texts.any(|text| is_on_in(text)) {
            true => Self::On,
            false if configs.iter().any(Result::is_err) => Self::Unseen,
            false => Self::Off,
        }
    }
}

fn has_flag(pod: &Pod) -> bool {
    pod.spec.containers.iter().any(|container| {
        let mut words = container.command.iter().chain(&container.args);
        words.any(|word| is_on_in(word))
            || container
                .env
                .iter()
                .any(|it| it.name == VARIABLE && it.value.as_deref() == Some("true"))
    })
}

/// Whether a flag, a configuration file or a script turns it on.
///
/// The scripts of OpenShift's operator have the flag below a condition that its template filled in, such as
/// `if [[ "true" == "true" ]]`.
fn is_on_in(text: &str) -> bool {
    let mut condition = true;
    for line in text.lines().map(str::trim) {
        if let Some(asked) = line.strip_prefix("if [[ \"") {
            condition = asked.starts_with("true\" ==");
        }
        let mut words = line.split([' ', '"', '\'', '\\']);
        let is_flag = |word: &str| word == FLAG || word == "--enable-dns-name-resolver=true";
        let is_set = line.replace(' ', "") == "enable-dns-name-resolver=true";
        if condition && (is_set || words.any(is_flag)) {
            return true;
        }
    }
    false
}

pub(crate) fn ovn_kubernetes(facts: &Facts) -> Vec<Finding> {
    let mut topic = Topic::new("ovn-kubernetes");
    match OvnFlag::of(facts) {
        OvnFlag::On => topic.ok(format!("{FLAG} is on")),
        OvnFlag::Off if facts.no_writer().is_some() => topic.fault(
            format!(
                "{FLAG} is off, and there is no ovn-writer: no program writes the address sets"
            ),
            "turn the flag on, or set ovnWriter.mode (docs/install.md)",
        ),
        OvnFlag::Off => topic.ok(format!(
            "{FLAG} is off, the ovn-writer writes the address sets"
        )),
        OvnFlag::Unseen => unseen(&mut topic, facts),
    }
    topic.into()
}

/// The mode that the flag asks for, before an installation.
pub(crate) fn before(facts: &Facts) -> Vec<Finding> {
    let mut topic = Topic::new("ovn-kubernetes");
    match OvnFlag::of(facts) {
        OvnFlag::On => topic.ok(format!("{FLAG} is on: ovnWriter.mode=none")),
        OvnFlag::Off => topic.ok(format!(
            "{FLAG} is off: ovnWriter.mode=interconnect, or central with one database for the cluster"
        )),
        OvnFlag::Unseen => unseen(&mut topic, facts),
    }
    topic.into()
}

fn unseen(topic: &mut Topic, facts: &Facts) {
    let namespace = &facts.settings.objects_namespace;
    let ovn = &facts.ovn_kubernetes;
    let config = ovn.configs.iter().find_map(|it| it.as_ref().err());
    match ovn.pods.as_ref().err().or(config) {
        Some(why) => topic.unknown(
            why.0.clone(),
            format!("you need the rights to list pods and get ConfigMaps in namespace {namespace}"),
        ),
        None => topic.unknown(
            format!("namespace {namespace} has no pod ovnkube-*"),
            "set objectsNamespace to ovn-kubernetes' own namespace, if it runs in this cluster",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_is_seen_in_arguments_files_and_filled_in_scripts() {
        let script = |value: &str| {
            format!(
                "x=\nif [[ \"{value}\" == \"true\" ]]; then\n  x=\"--enable-dns-name-resolver\"\nfi\n"
            )
        };
        for (text, is_on) in [
            ("--enable-dns-name-resolver", true),
            ("--enable-dns-name-resolver=true", true),
            ("--enable-dns-name-resolver=false", false),
            (
                "[ovnkubernetesfeature]\nenable-dns-name-resolver = true\n",
                true,
            ),
            ("enable-dns-name-resolver=false", false),
            (&script("true"), true),
            (&script("false"), false),
            (&script(""), false),
        ] {
            assert_eq!(is_on_in(text), is_on, "{text}");
        }
    }
}
