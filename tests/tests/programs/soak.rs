//! Long-term requirements. Each of these has a long version, see [`tests::soak`].

mod burst;
mod tenants;
