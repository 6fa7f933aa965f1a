//! A dnstap event.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| proto::fuzzing::dnstap(data));
