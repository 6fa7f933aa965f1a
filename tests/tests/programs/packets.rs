//! Packets of a pod, which OVN passes or drops by the address sets.

mod connectivity;
pub(crate) mod datapath_fixture;
mod flow;
mod hold;
mod verdicts;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
};

use tests::{
    datapath::{Datapath, Pod, create_namespace, create_others, set_egress_firewall},
    northbound::Northbound,
    or_skip,
    store::Store,
    wait::eventually,
    workdir::Workdir,
    world::start_ovn_writer,
};

use self::datapath_fixture::{POD, TEAM};

const NAME: &str = "www.example.com.";
const NETWORK: &str = "192.0.2.0/24";
const ONE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);
const OTHER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 20);
const PORT: u16 = 443;

async fn passes(pod: Pod, to: Ipv4Addr) {
    let to = SocketAddr::from((to, PORT));
    eventually(&format!("packets to {to} pass"), async || {
        pod.connect(to).map(drop).map_err(|error| error.to_string())
    })
    .await;
}

async fn is_dropped(pod: Pod, to: Ipv4Addr) {
    let to = SocketAddr::from((to, PORT));
    eventually(
        &format!("packets to {to} are dropped"),
        async || match pod.connect(to) {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Ok(()),
            other => Err(format!("{other:?}")),
        },
    )
    .await;
}

#[tokio::test]
async fn a_pod_reaches_only_the_addresses_in_the_set_of_an_allowed_name() {
    let workdir = Workdir::new();
    let northbound = Northbound::start(workdir.path()).await;
    let mut datapath = or_skip!(Datapath::start(workdir.path(), &northbound).await);
    create_others(&northbound);
    create_namespace(&northbound, TEAM);
    let pod = datapath.pod(&northbound, TEAM, "pod", POD).await;
    let outside = datapath.outside();
    outside.owns(NETWORK);
    outside.serve(PORT);
    // Without a rule everything passes, so a later drop is caused by a rule.
    passes(pod, ONE).await;
    passes(pod, OTHER).await;
    set_egress_firewall(&northbound, TEAM, &[NAME]);
    is_dropped(pod, ONE).await;
    is_dropped(pod, OTHER).await;

    let store = Store::new(workdir.join("store"));
    store.write_status(NAME, &["192.0.2.10"]);
    let _ovn_writer = start_ovn_writer(&workdir, &store).await;
    passes(pod, ONE).await;
    is_dropped(pod, OTHER).await;
    store.write_status(NAME, &["192.0.2.10", "192.0.2.20"]);
    passes(pod, OTHER).await;
    passes(pod, ONE).await;
    store.write_status(NAME, &["192.0.2.20"]);
    is_dropped(pod, ONE).await;
    passes(pod, OTHER).await;
}
