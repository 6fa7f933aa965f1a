//! The stream of JSON texts that an OVSDB server sends.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ovn_writer::fuzzing::json_stream(data));
