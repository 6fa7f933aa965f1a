//! Rules and sets as ovn-kubernetes writes them into the northbound database.

mod by_hand;

use proto::api::{DEFAULT_NETWORK_CONTROLLER, Family, address_set_id, address_set_name};

/// The name of the set of a DNS name in the default network.
pub fn set_name(name: &str, family: Family) -> String {
    address_set_name(&address_set_id(DEFAULT_NETWORK_CONTROLLER, name, family))
}
