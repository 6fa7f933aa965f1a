//! `collector capture`: saves the events that a running collector reads.

use std::{
    fs::OpenOptions,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use anyhow::{Context, bail};
use http_body_util::BodyExt;
use runtime::{
    UsageError,
    inspect::client::{ANSWER_TIMEOUT, get, unreachable},
};
use tokio::time::timeout;

use crate::{args::CaptureArgs, inspect::LONGEST_CAPTURE};

/// STOP, the last frame of a complete file.
const STOP: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 3];

/// Writes the file.
///
/// # Errors
/// The collector cannot be reached, refuses or breaks off; the file exists or cannot be written.
pub async fn run(args: CaptureArgs) -> anyhow::Result<()> {
    if args.duration > LONGEST_CAPTURE {
        let error = format!("--duration is over {} s", LONGEST_CAPTURE.as_secs());
        return Err(UsageError(error).into());
    }
    let path = format!("/capture/{}/{}", args.duration.as_millis(), args.size);
    let unreachable = || unreachable("collector", &args.inspect);
    let body = timeout(ANSWER_TIMEOUT, get(&args.inspect, &path)).await;
    let mut body = body.with_context(unreachable)?.with_context(unreachable)?;
    let mut file = create(&args.file).with_context(|| args.file.display().to_string())?;
    let (mut written, mut tail) = (0_usize, Vec::new());
    let copy = async {
        while let Some(frame) = body.frame().await {
            let Ok(chunk) = frame?.into_data() else {
                continue;
            };
            file.write_all(&chunk)?;
            written += chunk.len();
            tail.extend_from_slice(&chunk);
            tail.drain(..tail.len().saturating_sub(STOP.len()));
        }
        file.flush().map_err(anyhow::Error::from)
    };
    let copied = timeout(args.duration + ANSWER_TIMEOUT, copy).await;
    copied.context("the collector did not end the capture in time")??;
    if tail != STOP {
        bail!(
            "the collector closed the connection after {written} bytes: the file is incomplete (no STOP)"
        );
    }
    let _closed = writeln!(io::stderr(), "{written} bytes of Frame Streams");
    Ok(())
}

fn create(path: &Path) -> io::Result<Box<dyn Write>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdout().lock()));
    }
    // Mode 0600: the file has every query of every client.
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    Ok(Box::new(file))
}
