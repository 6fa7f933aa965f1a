//! Long versions of tests.

mod large_objects;
