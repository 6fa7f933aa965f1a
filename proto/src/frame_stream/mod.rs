//! Frame Streams.
