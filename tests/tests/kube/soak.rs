//! Long-term requirements, on a cluster whose API server and collectors fail. Each of these has a long version, see
//! [`tests::soak`].

mod crd;
mod failover;
mod instances;
mod large_objects;
mod log;
pub(crate) mod openshift;
mod outage;
mod overload;
mod rollout;
mod slow;
mod tenants;
mod wide;
mod writers;
