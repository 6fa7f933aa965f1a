//! The facts that the programs serve as JSON, for the program `egress`.

mod names;

use std::{net::IpAddr, time::Duration};

use serde::{Deserialize, Serialize};

pub use self::names::{
    AddressFacts, AnswerFacts, CapFacts, ExplainedName, FailingName, Guard, ListedName, NameFacts,
    NameList, NameReferences, RuleFault, RuleFaultKind, RuleReference, SubjectFacts,
};
use crate::timestamp::Timestamp;

/// The path of [`NameAddresses`] at the inspect listener of a collector, and of [`RowAddresses`] at that of an ovn-writer.
pub const NEW_ADDRESSES: &str = "/new-addresses.json";

/// The number of new addresses that a program remembers.
pub const MOST_NEW_ADDRESSES: usize = 1_000;

/// The longest capture of a collector (`GET /capture/MILLISECONDS/BYTES`).
pub const LONGEST_CAPTURE: Duration = Duration::from_secs(600);

/// The last new addresses that answers brought to names of rules, the oldest first.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NameAddresses {
    /// When the collector answered.
    pub now: Timestamp,
    /// At most [`MOST_NEW_ADDRESSES`].
    pub new_addresses: Vec<NameAddress>,
}

/// A new address of a name of rules.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NameAddress {
    /// The name as in rules, which is `spec.name` of the object.
    pub rule: String,
    /// The name of the question. Under a wildcard it differs from the rule.
    pub name: String,
    /// The address.
    pub address: IpAddr,
    /// The time of the answer by the DNS server's clock.
    pub answered_at: Option<Timestamp>,
    /// When the collector read the answer.
    pub read_at: Timestamp,
    /// When the store acknowledged a status with the address.
    pub status_written_at: Option<Timestamp>,
    /// The object of that status, as `namespace/name`.
    pub object: Option<String>,
    /// The DNS server of the answer, or the collector's own look-up.
    pub seen_where: String,
    /// The namespaces with a rule for it, at most 100.
    pub namespaces: Vec<String>,
}

/// The last new addresses that an ovn-writer put into rows, the oldest first.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RowAddresses {
    /// When the ovn-writer answered.
    pub now: Timestamp,
    /// At most [`MOST_NEW_ADDRESSES`].
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
    pub received_at: Timestamp,
    /// When the database acknowledged the transaction.
    pub committed_at: Timestamp,
    /// `name` of the row.
    pub set: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_addresses_read_back_as_written() {
        let json = serde_json::json!({
            "now": "2026-01-01T00:00:01Z",
            "newAddresses": [{
                "rule": "*.w.test.", "name": "a.w.test.", "address": "192.0.2.1",
                "answeredAt": null, "readAt": "2026-01-01T00:00:00.002Z",
                "statusWrittenAt": "2026-01-01T00:00:00.007Z", "object": "ns/x",
                "seenWhere": "own look-up", "namespaces": ["team"],
            }],
        });
        let read: NameAddresses = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), json);
    }

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
