//! The answers that a running collector reads, for a window of time.

use std::{
    io::{self, Write},
    pin::pin,
    time::Duration,
};

use anyhow::Context;
use futures_util::TryStreamExt;
use http_body_util::BodyExt;
use hyper::Method;
use proto::facts::AnswerLine;
use runtime::{UsageError, args::format_duration};
use tokio::{io::AsyncBufReadExt, signal::ctrl_c, time::timeout};
use tokio_util::io::StreamReader;

use super::clients::Clients;
use crate::targets::Target;

/// How long after its time the last line of a window may come.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// Counts the answers to these clients, until the time is over or Ctrl-C ends it. Returns how many bytes of events the collector could not
/// read in time, as far as it says.
///
/// # Errors
/// The collector cannot be reached, refuses, or breaks off.
pub(super) async fn listen(
    collector: &Target,
    duration: Duration,
    clients: &mut Clients,
) -> anyhow::Result<u64> {
    let path = format!("/answers/{}", duration.as_millis());
    let body = collector.request(Method::GET, &path).await?;
    let time = format_duration(duration);
    let _closed = writeln!(
        io::stderr(),
        "listening to the {collector} for {time}; Ctrl-C ends it earlier"
    );
    let body = body.into_data_stream().map_err(io::Error::other);
    let mut lines = StreamReader::new(body).lines();
    let mut interrupted = pin!(ctrl_c());
    let read = async {
        loop {
            let line = tokio::select! {
                interrupted = &mut interrupted => return Ok(interrupted.map(|()| 0)?),
                line = lines.next_line() => match line {
                    Ok(Some(line)) => line,
                    Ok(None) | Err(_) => return Err(UsageError(format!("the {collector} ended before the window")).into()),
                },
                () = clients.follow() => continue,
            };
            match serde_json::from_str(&line).context("the answer is not the expected JSON")? {
                AnswerLine::Answer(answer) => clients.add(answer),
                AnswerLine::End { lost_bytes } => return Ok(lost_bytes),
            }
        }
    };
    let read = timeout(duration + END_TIMEOUT, read).await;
    read.context("the collector did not end the window in time")?
}
