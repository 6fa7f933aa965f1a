//! Who asks a program for what it knows.

use std::{
    io::{self, Write},
    time::Duration,
};

use anyhow::{Context, bail};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{
    Request,
    body::{Bytes, Incoming},
    client::conn::http1,
};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
    time::timeout,
};

use super::text::printable;
use crate::{UsageError, listen::ListenAddress};

/// How long a program may take to begin an answer, or to give a short one.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The longest short answer, in bytes.
const MAX_ANSWER: usize = 64 << 20;

/// What somebody wants explained.
#[derive(Clone, Debug)]
pub struct Ask<'a> {
    /// The program, as it is called in errors.
    pub program: &'a str,
    /// Its `--inspect` address.
    pub inspect: &'a ListenAddress,
    /// A name or an address.
    pub about: &'a str,
    /// Only for the rules of this namespace.
    pub namespace: Option<&'a str>,
    /// Print what comes as it is, and not its text.
    pub json: bool,
}

/// What matters of an explanation.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Explanation {
    is_there: bool,
    text: Vec<String>,
}

/// Prints what the program says. Returns whether it has what was asked for.
///
/// # Errors
/// A [`UsageError`], since nothing can be told: the program cannot be reached, or does not explain.
pub async fn explain(ask: Ask<'_>) -> anyhow::Result<bool> {
    let shown = shown(&ask).await;
    let (is_there, text) = shown.map_err(|error| UsageError(format!("{error:#}")))?;
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
        // Who reads the lines has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(is_there),
        written => written
            .map(|()| is_there)
            .map_err(|error| UsageError(format!("cannot write to stdout: {error}")).into()),
    }
}

async fn shown(ask: &Ask<'_>) -> anyhow::Result<(bool, String)> {
    let unreachable = || format!("no {} answers at {}", ask.program, ask.inspect);
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("about", ask.about);
    if let Some(namespace) = ask.namespace {
        query.append_pair("namespace", namespace);
    }
    let path = format!("/explain.json?{}", query.finish());
    let answered = timeout(PATIENCE, async {
        let body = get(ask.inspect, &path).await?;
        let collected = Limited::new(body, MAX_ANSWER).collect().await;
        collected
            .map(|body| body.to_bytes())
            .map_err(anyhow::Error::from_boxed)
    });
    let bytes = answered
        .await
        .with_context(unreachable)?
        .with_context(unreachable)?;
    let not_ours = || format!("what answers at {} is no {}", ask.inspect, ask.program);
    let explanation: Explanation = serde_json::from_slice(&bytes).with_context(not_ours)?;
    let text = if ask.json {
        // Whoever listens there may be another than is thought.
        let value: serde_json::Value = serde_json::from_slice(&bytes)?;
        super::text::json(&value)?
    } else {
        let lines = explanation.text.iter().map(|line| printable(line));
        lines.collect::<Vec<_>>().join("\n")
    };
    Ok((explanation.is_there, text))
}

/// The answer to a GET, which is no refusal.
///
/// # Errors
/// The program cannot be reached, or refuses, with its words.
pub async fn get(address: &ListenAddress, path: &str) -> anyhow::Result<Incoming> {
    match address {
        ListenAddress::Unix(unix) => get_over(UnixStream::connect(&unix.path).await?, path).await,
        ListenAddress::Tcp(address) | ListenAddress::Tls(address) => {
            get_over(TcpStream::connect(address).await?, path).await
        }
    }
}

async fn get_over<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    stream: S,
    path: &str,
) -> anyhow::Result<Incoming> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // It ends with the process, or when the other side closes; an error of it is one of the body too.
    tokio::spawn(connection);
    let request = Request::get(path).header("host", "localhost");
    let answer = sender
        .send_request(request.body(Empty::<Bytes>::new())?)
        .await?;
    let status = answer.status();
    if !status.is_success() {
        let words = Limited::new(answer.into_body(), 1 << 16).collect().await;
        let words = words.map_or(Bytes::new(), |words| words.to_bytes());
        let words = String::from_utf8_lossy(&words);
        bail!("{status}: {}", printable(words.trim()));
    }
    Ok(answer.into_body())
}
