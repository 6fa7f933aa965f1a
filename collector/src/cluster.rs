//! What the collector reads of its cluster: its networks, its DNS servers, and the other collectors.

pub mod endpoints;
pub mod instances;
mod network_set;
pub mod networks;
mod node;
mod object_cache;
pub mod reading;
mod user_defined;
