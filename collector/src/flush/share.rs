//! What replicas tell each other of the streams that they hear: a text.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

use proto::api::DnsName;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::{
    plan::{Block, Peer, Peers},
    task::Announcement,
};

/// As many blocks of one replica are believed.
const MAX_BLOCKS: usize = 10_000;

/// As many addresses.
const MAX_ADDRESSES: usize = 16;

/// A block is `ADDRESS:PORT NAME`.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct Text {
    addresses: Vec<String>,
    hears: Vec<String>,
    forwards: Vec<String>,
}

/// What the others are told by a replica that is known by these addresses.
pub fn write((hears, forwards): &Announcement, addresses: &BTreeSet<IpAddr>) -> String {
    let blocks = |blocks: &BTreeSet<Block>| {
        let blocks = blocks.iter().take(MAX_BLOCKS);
        blocks
            .map(|(server, name)| format!("{server} {name}"))
            .collect()
    };
    let text = Text {
        addresses: addresses.iter().map(ToString::to_string).collect(),
        hears: blocks(hears),
        forwards: blocks(forwards),
    };
    serde_json::to_string(&text).unwrap_or_default()
}

/// What another tells. What cannot be understood is passed over: it may be of a later version.
pub fn read(text: &str) -> Peer {
    let text: Text = serde_json::from_str(text).unwrap_or_else(|error| {
        debug!(%error, "a replica's text cannot be read");
        Text::default()
    });
    let block = |text: &String| -> Option<Block> {
        let (server, name) = text.split_once(' ')?;
        Some((server.parse().ok()?, DnsName::parse(name).ok()?))
    };
    let blocks = |texts: &[String]| texts.iter().take(MAX_BLOCKS).filter_map(block).collect();
    let addresses = text.addresses.iter().take(MAX_ADDRESSES);
    Peer {
        addresses: addresses.filter_map(|text| text.parse().ok()).collect(),
        hears: blocks(&text.hears),
        forwards: blocks(&text.forwards),
    }
}

/// Keeps the text up to date until the token is cancelled.
///
/// # Errors
/// None.
pub async fn tell(
    mut announcement: watch::Receiver<Announcement>,
    mut addresses: watch::Receiver<BTreeSet<IpAddr>>,
    text: watch::Sender<String>,
    token: CancellationToken,
) -> anyhow::Result<()> {
    loop {
        let now = write(
            &announcement.borrow_and_update(),
            &addresses.borrow_and_update(),
        );
        text.send_if_modified(|text| {
            let is_new = *text != now;
            *text = now;
            is_new
        });
        tokio::select! {
            () = token.cancelled() => return Ok(()),
            Ok(()) = announcement.changed() => {}
            Ok(()) = addresses.changed() => {}
        }
    }
}

/// What all others tell.
pub fn peers(others: &runtime::replicas::Others) -> Peers {
    let others = others.iter();
    Arc::new(others.map(|(id, text)| (id.clone(), read(text))).collect())
}

/// From where all others ask. A loopback address is everybody's.
pub fn addresses(peers: &Peers) -> BTreeSet<IpAddr> {
    let all = peers.values().flat_map(|peer| &peer.addresses);
    all.map(IpAddr::to_canonical)
        .filter(|address| !address.is_loopback() && !address.is_unspecified())
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_one_writes_another_reads() {
        let block = |text: &str, name| (text.parse().unwrap(), DnsName::parse(name).unwrap());
        let hears: BTreeSet<Block> = [
            block("10.0.0.1:53", "flush.cluster.local"),
            block("[fd00::1]:5353", "flush.example.com"),
        ]
        .into();
        let forwards: BTreeSet<Block> = [block("10.0.0.1:53", "flush.example.com")].into();
        let addresses: BTreeSet<IpAddr> = ["10.1.0.1".parse().unwrap()].into();
        let text = write(&(hears.clone(), forwards.clone()), &addresses);
        let expected = Peer {
            addresses,
            hears,
            forwards,
        };
        assert_eq!(read(&text), expected);
    }

    #[test]
    fn others_ask_from_the_addresses_that_they_tell_and_nobody_from_loopback() {
        let others = [
            r#"["10.0.0.1","::ffff:10.0.0.2"]"#,
            r#"["127.0.0.1","fd00::3"]"#,
        ];
        let others = others
            .iter()
            .enumerate()
            .map(|(i, addresses)| (i.to_string(), format!(r#"{{"addresses":{addresses}}}"#)));
        let peers = peers(&Arc::new(others.collect()));
        let expected = ["10.0.0.1", "10.0.0.2", "fd00::3"].map(|it| it.parse().unwrap());
        assert_eq!(addresses(&peers), expected.into());
    }

    #[test]
    fn what_a_later_version_adds_is_passed_over() {
        let text = r#"{"hears":["10.0.0.1:53 a.b","x","10.0.0.1 a.b"],"more":{}}"#;
        assert_eq!(read(text).hears.len(), 1);
    }

    proptest! {
        #[test]
        fn whatever_is_told_can_be_read(text: String) {
            assert_eq!(read(&text), Peer::default());
        }
    }
}
