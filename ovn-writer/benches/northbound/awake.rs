//! Processors that do not sleep while something is measured.
//!
//! A virtual processor with nothing to do goes back to its host, which may take longer to return it than the server takes for a
//! change, and each time another while. Client and server wait for each other all the time, so that figures tell more of the host
//! than of either.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
};

/// Asks the kernel for idle processors that poll, as long as it is kept (Linux, `Documentation/power/pm_qos_interface.rst`).
///
/// # Errors
/// The device is not there, or belongs to another user.
pub(crate) fn keep() -> io::Result<File> {
    let mut latency = OpenOptions::new()
        .write(true)
        .open("/dev/cpu_dma_latency")?;
    latency.write_all(&0_i32.to_ne_bytes())?;
    Ok(latency)
}
