//! `egress capture`: saves the events that a running collector reads.

use std::{
    io::{self, Write},
    path::PathBuf,
    time::Duration,
};

use anyhow::{Context, bail};
use clap::Args;
use http_body_util::BodyExt;
use hyper::Method;
use proto::facts::Program;
use runtime::{UsageError, args::parse_size};
use tokio::time::timeout;

use crate::{
    output,
    targets::{Target, TargetArgs, Targets, parse_window},
};

/// STOP, the last frame of a complete file.
const STOP: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 3];

/// Writes the dnstap events that a running collector reads into a file, as Frame Streams.
///
/// The file has every question of every client: keep it confidential. If the collector has a `--secret-file`, the secret in `extra` is
/// crossed out.
#[derive(Args, Clone, Debug)]
pub struct CaptureArgs {
    /// The file to write, which must not exist yet; `-` is stdout.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// How long the capture takes, at most 10m.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_window)]
    pub duration: Duration,

    /// The size of the file at which the capture ends.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_size)]
    pub size: usize,

    /// The pod of the collector, if there are several.
    ///
    /// Each collector has the streams of all DNS servers that stream to it. Default: the first one.
    #[arg(long, value_name = "POD")]
    pub pod: Option<String>,

    #[command(flatten)]
    pub targets: TargetArgs,
}

/// Writes the file.
///
/// # Errors
/// The collector cannot be reached, refuses or breaks off; the file exists or cannot be written.
pub(crate) async fn run(args: CaptureArgs) -> anyhow::Result<()> {
    let targets = args.targets.find().await?;
    let collector = chosen(&targets, args.pod.as_deref())?;
    let path = format!("/capture/{}/{}", args.duration.as_millis(), args.size);
    let mut body = collector.request(Method::GET, &path).await?;
    let mut file = output::create(&args.file).with_context(|| args.file.display().to_string())?;
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
    let copied = timeout(args.duration + args.targets.cluster.request_timeout, copy).await;
    copied.context("the collector did not end the capture in time")??;
    if tail != STOP {
        bail!(
            "the collector closed the connection after {written} bytes: the file is incomplete (no STOP)"
        );
    }
    let _closed = writeln!(
        io::stderr(),
        "{written} bytes of Frame Streams of the {collector}"
    );
    Ok(())
}

fn chosen<'a>(targets: &'a Targets, pod: Option<&str>) -> Result<&'a Target, UsageError> {
    let mut collectors = targets.of(Program::Collector);
    let chosen = match pod {
        Some(pod) => collectors.find(|it| it.pod() == Some(pod)),
        None => collectors.next(),
    };
    chosen.ok_or_else(|| {
        let which = pod.map_or_else(String::new, |pod| format!(" in pod {pod}"));
        UsageError(format!("there is no collector{which}"))
    })
}
