//! Long-term requirements, on a cluster whose API server and collectors fail. Each of these has a long version, see
//! [`tests::soak`].

mod failover;
mod large_objects;
mod outage;
mod rollout;
