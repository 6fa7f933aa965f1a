//! The API server.

use super::{
    facts::Facts,
    report::{Finding, SERVER_FAILS, Topic},
    seen::Unseen,
};

/// The oldest minor version of Kubernetes 1 that the chart accepts.
const OLDEST: u32 = 30;

const REACH: &str = "see that `kubectl version` reaches the cluster";

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
