//! Selectors of labels and addresses.

use std::{collections::BTreeMap, net::IpAddr};

use ipnet::IpNet;
use k8s_openapi::{api::networking::v1::IPBlock, apimachinery::pkg::apis::meta::v1::LabelSelector};

/// Whether a selector selects something with these labels; without any labels only an empty one does.
pub(super) fn selects(selector: &LabelSelector, labels: Option<&BTreeMap<String, String>>) -> bool {
    let value = |key: &String| labels.and_then(|labels| labels.get(key));
    let mut equal = selector.match_labels.iter().flatten();
    let mut expressions = selector.match_expressions.iter().flatten();
    equal.all(|(key, wanted)| value(key) == Some(wanted))
        && expressions.all(|it| {
            let values = it.values.as_deref().unwrap_or_default();
            let is_in = value(&it.key).is_some_and(|value| values.contains(value));
            match it.operator.as_str() {
                "In" => is_in,
                "NotIn" => !is_in,
                "Exists" => value(&it.key).is_some(),
                "DoesNotExist" => value(&it.key).is_none(),
                _ => false,
            }
        })
}

/// Whether a block of addresses has this one.
pub(super) fn contains(block: &IPBlock, ip: IpAddr) -> bool {
    let has = |cidr: &String| cidr.parse::<IpNet>().is_ok_and(|net| net.contains(&ip));
    has(&block.cidr) && !block.except.iter().flatten().any(has)
}
