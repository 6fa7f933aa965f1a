//! Reports DNS servers that are refused because they are on the host network.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use k8s_openapi::api::core::v1::Service;
use runtime::{
    inspect::text::few,
    kube_events::{Reporter, Severity},
    store::ObjectKey,
};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::dns_servers::{DnsServers, Placement};

/// The reason of the Event.
const REASON: &str = "HostNetworkRefused";

/// The explanation and the remedy, for the log, for Events and for the status page.
pub const ADVICE: &str = "a DNS server on the host network shares its Node's address with other pods. Let it stream over TLS (tls:// in the \
    Corefile) with the shared secret (--secret-file). The flag --insecure-host-network accepts it without TLS, and without the secret if there is \
    no --secret-file; every pod on the host network of that Node can then send false answers";

/// Delay of the first Event, so that it names all DNS servers that dial together.
const GATHER: Duration = Duration::from_secs(5);

/// How often an Event is repeated.
const AGAIN: Duration = Duration::from_secs(30 * 60);

/// The most DNS servers that an Event names.
const MAX_NAMED: usize = 5;

/// Reports until the token is cancelled. The log names each DNS server once. Events go to the
/// Services that may select these servers, and name all of them.
///
/// # Errors
/// None.
pub async fn run(
    mut servers: DnsServers,
    services: Vec<ObjectKey>,
    reporter: Reporter,
    token: CancellationToken,
) -> anyhow::Result<()> {
    let mut refusals = servers.refusals();
    let mut logged = BTreeSet::new();
    let mut report_at = None;
    let mut said_unknown = false;
    loop {
        let listing = servers.look();
        refusals.mark_unchanged();
        if listing.lacks_nodes() && !std::mem::replace(&mut said_unknown, true) {
            warn!(
                "cannot read Nodes: the collector accepts DNS servers on the host network without TLS and secret. Allow it to list Nodes"
            );
        }
        servers.retain_refused(&listing);
        logged.retain(|address| listing.placement(*address) == Placement::HostNetwork);
        let refused = servers.refused();
        for address in &refused {
            if logged.insert(*address) {
                warn!(server = %address, "dnstap stream refused: {ADVICE}");
            }
        }
        let now = Instant::now();
        let due = match report_at {
            _ if refused.is_empty() => None,
            None => Some(now + GATHER),
            Some(due) if due > now => Some(due),
            Some(_) => {
                for service in &services {
                    let about = service.reference::<Service>();
                    reporter.report(about, Severity::Warning, REASON, note(&refused));
                }
                Some(now + AGAIN)
            }
        };
        report_at = due;
        tokio::select! {
            () = token.cancelled() => return Ok(()),
            () = servers.changed() => {}
            Ok(()) = refusals.changed() => {}
            () = sleep_until(due.unwrap_or(now)), if due.is_some() => {}
        }
    }
}

fn note(refused: &[IpAddr]) -> String {
    let named = few(refused.iter(), MAX_NAMED);
    format!("dnstap streams of {named} are refused: {ADVICE}")
}

#[cfg(test)]
mod tests;
