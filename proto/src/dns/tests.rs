//! Responses of any sort, next to hickory-proto.

mod differential;
