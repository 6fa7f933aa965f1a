//! The stream of JSON texts that an OVSDB server sends.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ovsdb_replica::fuzzing::json_stream(data));
