//! The reader of CoreDNS's layout compared with prost: values that both accept must be equal.

use prost::Message as _;

use crate::dnstap::{ClientResponse, pb};

/// Reads the bytes both ways.
pub(crate) fn check(bytes: &[u8]) {
    let event = pb::Dnstap::decode(bytes);
    match (ClientResponse::parse_usual(bytes), &event) {
        (Some(Some(usual)), Ok(event)) => assert_eq!(ClientResponse::of(event), Some(usual)),
        (Some(Some(_)), Err(error)) => panic!("{error} in {bytes:?}"),
        (Some(None), Ok(event)) if ClientResponse::of(event).is_some() => {
            // The reader stops at an event type other than CLIENT_RESPONSE. Only a second type field could change it.
            let types = bytes.windows(2).filter(|pair| pair.first() == Some(&0x08));
            assert!(types.count() > 1, "{bytes:?}");
        }
        (Some(None), _) | (None, _) => {}
    }
}
