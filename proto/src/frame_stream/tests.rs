//! Frames, and their order.

mod frames;
mod handshake;
