//! Updates of the northbound database, from JSON to the replica.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ovn_writer::fuzzing::updates(data));
