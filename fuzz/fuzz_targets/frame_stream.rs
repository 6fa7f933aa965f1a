//! A Frame Streams stream.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| proto::fuzzing::frame_stream(data));
