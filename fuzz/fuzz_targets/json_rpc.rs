//! The messages of an OVSDB server, and what jsonrpsee is told of them.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ovsdb_replica::fuzzing::json_rpc(data));
