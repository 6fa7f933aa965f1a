//! Arbitrary responses, compared with hickory-proto.

mod differential;
