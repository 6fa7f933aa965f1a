//! The reader of CoreDNS's layout against prost: what both take has the same values.

use prost::Message as _;

use crate::dnstap::{ClientResponse, pb};

/// Whether prost takes the bytes.
pub(crate) fn check(bytes: &[u8]) -> bool {
    let event = pb::Dnstap::decode(bytes);
    match (ClientResponse::parse_usual(bytes), &event) {
        (Some(Some(usual)), Ok(event)) => assert_eq!(ClientResponse::of(event), Some(usual)),
        (Some(Some(_)), Err(error)) => panic!("{error} in {bytes:?}"),
        (Some(None), Ok(event)) if ClientResponse::of(event).is_some() => {
            // An event of another kind is left when it says so. Only a second type can make it a response.
            let types = bytes.windows(2).filter(|pair| pair.first() == Some(&0x08));
            assert!(types.count() > 1, "{bytes:?}");
        }
        (Some(None), _) | (None, _) => {}
    }
    event.is_ok()
}
