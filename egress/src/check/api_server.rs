//! The API server, and the CRDs.

use runtime::inspect::text::few;

use super::{
    facts::Facts,
    programs::MOST_NAMED,
    report::{Finding, SERVER_FAILS, Topic},
    seen::Unseen,
};

/// The oldest minor version of Kubernetes 1 that the chart accepts.
const OLDEST: u32 = 30;

pub(super) const REACH: &str = "see that `kubectl version` reaches the cluster";

pub(crate) fn api_server(facts: &Facts) -> Vec<Finding> {
    let mut topic = Topic::new("API server");
    match &facts.version {
        Err(unseen) => topic.unknown(unseen.0.clone(), REACH),
        Ok(version) => {
            let minor = version.trim_start_matches('v').split('.').nth(1);
            if let Err(Unseen(words)) = &facts.pods
                && Unseen::is_failure(words)
            {
                topic.fault(format!("{version}: {words}"), SERVER_FAILS);
                return topic.into();
            }
            match minor.and_then(|minor| minor.parse::<u32>().ok()) {
                Some(minor) if minor < OLDEST => topic.fault(
                    format!("it is {version}"),
                    format!("upgrade it to 1.{OLDEST} or newer"),
                ),
                _ => topic.ok(version.clone()),
            }
        }
    }
    topic.into()
}

pub(crate) fn resources(facts: &Facts) -> Vec<Finding> {
    let mut topic = Topic::new("CRDs");
    for resource in &facts.resources {
        match &resource.is_served {
            Ok(true) => {}
            Ok(false) => topic.fault(
                format!("the API server has no {}", resource.name),
                "install the chart with the values crds.* that it needs, such as crds.dnsNameResolvers=true, or apply deploy/chart/files/crds",
            ),
            Err(unseen) => topic.unknown(unseen.0.clone(), REACH),
        }
    }
    let names = facts.resources.iter().map(|resource| resource.name);
    topic.or_ok(|| few(names, MOST_NAMED))
}
