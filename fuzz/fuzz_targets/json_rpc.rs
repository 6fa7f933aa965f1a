//! The messages of an OVSDB server, against a parser.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ovsdb_replica::fuzzing::json_rpc(data));
