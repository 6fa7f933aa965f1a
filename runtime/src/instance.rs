//! The pod and the node of this process.

use std::env;

use serde::Serialize;

/// Where this process runs; in a cluster the chart sets both variables.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Instance {
    /// The pod's name (`POD_NAME`).
    pub pod: Option<String>,
    /// The node's name (`NODE_NAME`).
    pub node: Option<String>,
}

impl Instance {
    /// Reads the environment of the process.
    pub fn from_env() -> Self {
        let read = |name| env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            pod: read("POD_NAME"),
            node: read("NODE_NAME"),
        }
    }
}
