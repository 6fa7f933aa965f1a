//! The pod and the node of this process.

use std::env;

use proto::{
    facts::{Head, Program, SCHEMA},
    timestamp::Timestamp,
};

use crate::{VERSION, clock::Clock};

/// Where this process runs, and since when. In a cluster the chart sets the variables.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Instance {
    program: Program,
    /// `POD_NAME`
    pod: Option<String>,
    /// `NODE_NAME`
    node: Option<String>,
    /// `POD_NAMESPACE`
    namespace: Option<String>,
    started: Timestamp,
}

impl Instance {
    /// Reads the environment of the process, which starts now.
    pub fn from_env(program: Program) -> Self {
        let read = |name| env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            program,
            pod: read("POD_NAME"),
            node: read("NODE_NAME"),
            namespace: read("POD_NAMESPACE"),
            started: Clock::system().now(),
        }
    }

    /// The head of an answer.
    pub fn head(&self, leader: bool, now: Timestamp) -> Head {
        Head {
            schema: SCHEMA,
            program: self.program,
            version: VERSION.to_owned(),
            pod: self.pod.clone(),
            node: self.node.clone(),
            namespace: self.namespace.clone(),
            started: self.started,
            now,
            leader,
        }
    }
}
