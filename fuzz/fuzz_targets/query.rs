//! A query that is forwarded, and a message that may be its reply.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| proto::fuzzing::query(data));
