//! The watches of the store, whose events become [`Input`]s.

use std::{future::pending, pin::pin, time::Duration};

use futures_util::StreamExt;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use proto::api::{DnsNameResolver, DnsResolver, IpMap, NetworkSet};
use runtime::{
    OpenStore,
    store::{Event, Kind, Scope, Store},
};
use tokio::{
    select,
    sync::{mpsc, watch},
    time::sleep,
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::write::{SetApi, of_crd};

/// How often the API server is asked whether it serves NetworkSets.
const DISCOVERY: Duration = Duration::from_secs(30);

/// The plural of Calico's NetworkSet.
const NETWORK_SETS: &str = "networksets";

/// The groups of Calico's NetworkSet, the better one first.
const SET_APIS: [(&str, SetApi); 2] = [
    ("projectcalico.org/v3", SetApi::V3),
    ("crd.projectcalico.org/v1", SetApi::Crd),
];

/// An event of the store.
#[derive(Debug)]
pub(super) enum Input {
    Names(Event<DnsNameResolver>),
    Resolvers(Event<DnsResolver>),
    Policies(Event<NetworkPolicy>),
    Maps(Event<IpMap>),
    Sets(Event<NetworkSet>),
    /// NetworkSets are read anew from here; `None` if they are not served.
    SetApi(Option<SetApi>),
}

/// Forwards events until the token is cancelled. If either end closes earlier, the receiver reports why.
pub(super) async fn forward<K: Kind>(
    store: OpenStore,
    scope: Scope,
    input: fn(Event<K>) -> Input,
    sender: mpsc::Sender<Input>,
    token: CancellationToken,
) -> anyhow::Result<()> {
    let all = forward_all(&store, scope, input, &sender);
    token.run_until_cancelled(all).await;
    token.cancelled().await;
    Ok(())
}

async fn forward_all<K: Kind>(
    store: &OpenStore,
    scope: Scope,
    input: impl Fn(Event<K>) -> Input,
    sender: &mpsc::Sender<Input>,
) {
    let mut events = pin!(store.watch::<K>(scope));
    while let Some(event) = events.next().await
        && sender.send(input(event)).await.is_ok()
    {}
}

/// Forwards NetworkSets once a `DNSResolver` asks for one and a group of Calico serves them.
pub(super) async fn forward_sets(
    store: OpenStore,
    mut wanted: watch::Receiver<bool>,
    sender: mpsc::Sender<Input>,
    token: CancellationToken,
) -> anyhow::Result<()> {
    let all = async {
        // The writer ends only with the program.
        if wanted.wait_for(|wanted| *wanted).await.is_err() {
            return;
        }
        while !sender.is_closed() {
            let api = served(&store, &sender).await;
            let _gone = sender.send(Input::SetApi(Some(api))).await;
            let of_crd = |event: Event<_>| Input::Sets(event.map(of_crd));
            select! {
                () = forward_all(&store, Scope::All, Input::Sets, &sender), if api == SetApi::V3 => {}
                () = forward_all(&store, Scope::All, of_crd, &sender), if api == SetApi::Crd => {}
                () = gone(&store, api) => {}
            }
        }
    };
    token.run_until_cancelled(all).await;
    token.cancelled().await;
    Ok(())
}

/// Waits until the API server says that the group does not serve NetworkSets any more.
async fn gone(store: &OpenStore, api: SetApi) {
    let OpenStore::Kube(store) = store else {
        return pending().await;
    };
    let mut groups = SET_APIS.into_iter().filter(|(_, it)| *it == api);
    let Some((group, _)) = groups.next() else {
        return pending().await;
    };
    loop {
        sleep(DISCOVERY).await;
        if store.cluster().serves(group, NETWORK_SETS).await == Ok(false) {
            return;
        }
    }
}

/// Waits until a group serves NetworkSets.
async fn served(store: &OpenStore, sender: &mpsc::Sender<Input>) -> SetApi {
    let OpenStore::Kube(store) = store else {
        return SetApi::V3;
    };
    let mut is_reported = false;
    loop {
        let mut answers = 0;
        for (group, api) in SET_APIS {
            match store.cluster().serves(group, NETWORK_SETS).await {
                Ok(true) => return api,
                Ok(false) => answers += 1,
                Err(error) => {
                    debug!(
                        group,
                        "the API server does not say whether it serves NetworkSets: {error}"
                    );
                    // The better group may be the one that did not answer.
                    break;
                }
            }
        }
        if answers == SET_APIS.len() && !std::mem::replace(&mut is_reported, true) {
            warn!(
                "a DNSResolver asks for a NetworkSet of Calico, which the cluster does not serve now"
            );
            let _gone = sender.send(Input::SetApi(None)).await;
        }
        sleep(DISCOVERY).await;
    }
}
