//! The facts that the programs serve as JSON, for the program `egress`.

use std::net::IpAddr;

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The path of [`RowAddresses`] at the inspect listener of an ovn-writer.
pub const NEW_ADDRESSES: &str = "/new-addresses.json";

/// The last new addresses that an ovn-writer put into rows, the oldest first.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RowAddresses {
    /// When the ovn-writer answered.
    #[serde(with = "rfc3339")]
    pub now: Timestamp,
    /// At most 1,000.
    pub new_addresses: Vec<RowAddress>,
}

/// A new address of a row.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RowAddress {
    /// `spec.name` of the object.
    pub rule: String,
    /// The address.
    pub address: IpAddr,
    /// When the ovn-writer received the event of the object.
    #[serde(with = "rfc3339")]
    pub received_at: Timestamp,
    /// When the database acknowledged the transaction.
    #[serde(with = "rfc3339")]
    pub committed_at: Timestamp,
    /// `name` of the row.
    pub set: String,
}

/// Times as text, since `jiff` is built without its feature `serde`.
mod rfc3339 {
    use k8s_openapi::jiff::Timestamp;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(at: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(at)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_addresses_read_back_as_written() {
        let json = serde_json::json!({
            "now": "2026-01-01T00:00:01.5Z",
            "newAddresses": [{
                "rule": "*.example.com.",
                "address": "2001:db8::1",
                "receivedAt": "2026-01-01T00:00:00.001Z",
                "committedAt": "2026-01-01T00:00:00.002Z",
                "set": "a1",
            }],
        });
        let read: RowAddresses = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), json);
    }
}
