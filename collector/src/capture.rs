//! `collector capture`: a file of what a running collector reads.

use std::{
    fs::OpenOptions,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    time::Duration,
};

use anyhow::{Context, bail};
use http_body_util::{BodyExt, Empty};
use hyper::{Request, body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use runtime::{UsageError, listen::ListenAddress};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
    time::timeout,
};

use crate::{args::CaptureArgs, inspect::LONGEST_CAPTURE};

/// How long the collector may take to begin, and to end after the time is over.
const PATIENCE: Duration = Duration::from_secs(10);

/// The bytes of STOP, the last frame of a whole file.
const STOP: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 3];

/// Writes the file.
///
/// # Errors
/// The collector cannot be reached, refuses or breaks off; the file is there already or cannot be written.
pub async fn run(args: CaptureArgs) -> anyhow::Result<()> {
    if args.duration > LONGEST_CAPTURE {
        let error = format!("--duration is over {} s", LONGEST_CAPTURE.as_secs());
        return Err(UsageError(error).into());
    }
    let path = format!("/capture/{}/{}", args.duration.as_millis(), args.size);
    let unreachable = || format!("no collector answers at {}", args.inspect);
    let body = timeout(PATIENCE, get(&args.inspect, &path)).await;
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
    let copied = timeout(args.duration + PATIENCE, copy).await;
    copied.context("the collector does not end")??;
    if tail != STOP {
        bail!("the collector broke off after {written} bytes; the file has no STOP");
    }
    let _closed = writeln!(io::stderr(), "{written} bytes of Frame Streams");
    Ok(())
}

fn create(path: &Path) -> io::Result<Box<dyn Write>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdout().lock()));
    }
    // It has every question of every client.
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    Ok(Box::new(file))
}

async fn get(address: &ListenAddress, path: &str) -> anyhow::Result<hyper::body::Incoming> {
    match address {
        ListenAddress::Unix(unix) => ask(UnixStream::connect(&unix.path).await?, path).await,
        ListenAddress::Tcp(address) | ListenAddress::Tls(address) => {
            ask(TcpStream::connect(address).await?, path).await
        }
    }
}

async fn ask<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    stream: S,
    path: &str,
) -> anyhow::Result<hyper::body::Incoming> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // It ends with the process, or when the other side closes; an error of it is one of the body too.
    tokio::spawn(connection);
    let request = Request::get(path).header("host", "localhost");
    let answer = sender
        .send_request(request.body(Empty::<Bytes>::new())?)
        .await?;
    let status = answer.status();
    if !status.is_success() {
        let words = answer.into_body().collect().await?.to_bytes();
        let words = String::from_utf8_lossy(&words);
        bail!("{status}: {}", words.trim().escape_debug());
    }
    Ok(answer.into_body())
}
