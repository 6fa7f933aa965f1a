//! The DNS servers that look-ups query.

use runtime::{UsageError, endpoints::Endpoints, shutdown::Tasks};
use tokio::sync::watch;

use super::{Found, follow};
use crate::{
    args::Args,
    lookup::{self, ResolvConf, ResolverSpec, Server},
};

/// The list of servers to query; `None` without look-ups.
pub(super) fn servers(
    args: &Args,
    endpoints: Option<Found>,
    tasks: &mut Tasks,
) -> anyhow::Result<Option<watch::Receiver<lookup::Servers>>> {
    let (sender, servers) = watch::channel(lookup::Servers::default());
    match (args.resolver(), endpoints) {
        (ResolverSpec::None, _) => return Ok(None),
        (ResolverSpec::Kube, Some(found)) => {
            let pass_on = move |endpoints: Option<Endpoints>| {
                if let Some(endpoints) = endpoints {
                    let ready = endpoints.iter().filter(|(_, conditions)| conditions.ready);
                    sender.send_replace(ready.map(|(address, _)| Server::udp(*address)).collect());
                }
            };
            tasks.spawn("resolver servers", follow(found, tasks.token(), pass_on));
        }
        (ResolverSpec::Kube, None) => {
            return Err(UsageError("--resolver kube needs --store kube".to_owned()).into());
        }
        (ResolverSpec::Servers(fixed), _) => {
            sender.send_replace(fixed.into_iter().map(Server::udp).collect());
        }
        (resolver @ (ResolverSpec::ResolvConf | ResolverSpec::ResolvConfTcp), _) => {
            let file = ResolvConf::of_host(resolver == ResolverSpec::ResolvConfTcp);
            tasks.spawn("resolver servers", file.run(sender, tasks.token()));
        }
    }
    Ok(Some(servers))
}
