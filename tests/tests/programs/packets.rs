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

use tests::{datapath::Pod, wait::eventually};

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
