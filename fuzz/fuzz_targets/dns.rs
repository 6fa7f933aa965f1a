//! A DNS response.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| proto::fuzzing::dns(data));
