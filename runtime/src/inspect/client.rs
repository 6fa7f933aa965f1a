//! The client that queries a running program's state.

use std::{
    io::{self, Write},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, bail};
use clap::{Command, CommandFactory, Parser, ValueEnum};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{
    Method, Request,
    body::{Bytes, Incoming},
    client::conn::http1,
};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
    time::timeout,
};

use super::text::printable;
use crate::{
    UsageError,
    args::parse_namespace,
    listen::{ListenAddress, parse_local},
    run_program,
};

/// The time-out until an answer begins, or for a whole short answer.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest short answer, in bytes.
const MAX_ANSWER: usize = 64 << 20;

/// Prints why a running program has an address for a name, or why it has none.
///
/// Exit status 0: a rule has the name, and there is an address. The rule may be Allow or Deny. 1: there is no rule, or no address. 2: the
/// program did not answer.
#[derive(Clone, Debug, Parser)]
#[command(name = "explain")]
pub struct ExplainArgs {
    /// A DNS name, a wildcard as it stands in a rule, or an IP address.
    #[arg(value_name = "NAME|ADDRESS")]
    pub about: String,

    /// The namespace whose rules count. Default: all namespaces.
    #[arg(long, value_name = "NAMESPACE", value_parser = parse_namespace)]
    pub namespace: Option<String>,

    /// The `--inspect` URL of the running program.
    #[arg(long, value_name = "URL", value_parser = parse_local)]
    pub inspect: ListenAddress,

    /// The format of the output.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    pub output: Output,
}

impl ExplainArgs {
    /// The subcommand, with the default of `--inspect`.
    pub fn command_with(inspect: &'static str) -> Command {
        Self::command().mut_arg("inspect", |arg| arg.required(false).default_value(inspect))
    }
}

/// How something is printed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub enum Output {
    /// Plain text
    #[default]
    Text,
    /// JSON, one object a line
    Json,
}

/// The used part of an explanation.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Explanation {
    is_there: bool,
    text: Vec<String>,
}

/// Prints the program's explanation: the whole subcommand `explain`.
pub fn run_explain(program: &str, args: &ExplainArgs) -> ExitCode {
    let mut is_there = false;
    let ended = run_program(program, async {
        is_there = explain(program, args).await?;
        Ok(())
    });
    match ended {
        ExitCode::SUCCESS if !is_there => ExitCode::FAILURE,
        ended => ended,
    }
}

/// Returns whether the program has the address or name. An error is a [`UsageError`] (exit status 2), since the answer
/// is unknown.
async fn explain(program: &str, args: &ExplainArgs) -> anyhow::Result<bool> {
    let shown = shown(program, args).await;
    let (is_there, text) = shown.map_err(|error| UsageError(format!("{error:#}")))?;
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
        // The reader of our output, such as `head`, closed the pipe.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(is_there),
        written => written
            .map(|()| is_there)
            .map_err(|error| UsageError(format!("cannot write to stdout: {error}")).into()),
    }
}

async fn shown(program: &str, ask: &ExplainArgs) -> anyhow::Result<(bool, String)> {
    let unreachable = || unreachable(program, &ask.inspect);
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("about", &ask.about);
    if let Some(namespace) = &ask.namespace {
        query.append_pair("namespace", namespace);
    }
    let path = format!("/explain.json?{}", query.finish());
    let bytes = short(&ask.inspect, Method::GET, &path)
        .await
        .with_context(unreachable)?;
    let not_ours = || format!("the server at {} is not a {program}", ask.inspect);
    let explanation: Explanation = serde_json::from_slice(&bytes).with_context(not_ours)?;
    let text = if ask.output == Output::Json {
        // Another program may listen at this address, so the answer is checked.
        let value: serde_json::Value = serde_json::from_slice(&bytes)?;
        super::text::json(&value)?
    } else {
        let lines = explanation.text.iter().map(|line| printable(line));
        lines.collect::<Vec<_>>().join("\n")
    };
    Ok((explanation.is_there, text))
}

/// The error text if the program does not answer.
pub fn unreachable(program: &str, inspect: &ListenAddress) -> String {
    format!(
        "no {program} answers at {inspect} (--inspect; it listens where its own --inspect says)"
    )
}

/// The successful answer to a GET.
///
/// # Errors
/// The program cannot be reached, or refuses with a message.
pub async fn get(address: &ListenAddress, path: &str) -> anyhow::Result<Incoming> {
    ask(address, Method::GET, path).await
}

/// The JSON answer to a POST without a body.
///
/// # Errors
/// The program cannot be reached within [`ANSWER_TIMEOUT`], refuses, or answers no valid JSON.
pub async fn post<T: DeserializeOwned>(address: &ListenAddress, path: &str) -> anyhow::Result<T> {
    let bytes = short(address, Method::POST, path).await?;
    serde_json::from_slice(&bytes).context("the answer cannot be read")
}

/// A short answer, as a whole.
async fn short(address: &ListenAddress, method: Method, path: &str) -> anyhow::Result<Bytes> {
    let answered = timeout(ANSWER_TIMEOUT, async {
        let body = ask(address, method, path).await?;
        let collected = Limited::new(body, MAX_ANSWER).collect().await;
        collected
            .map(|body| body.to_bytes())
            .map_err(anyhow::Error::from_boxed)
    });
    answered.await.context("it does not answer in time")?
}

async fn ask(address: &ListenAddress, method: Method, path: &str) -> anyhow::Result<Incoming> {
    match address {
        ListenAddress::Unix(unix) => {
            ask_over(UnixStream::connect(&unix.path).await?, method, path).await
        }
        ListenAddress::Tcp(address) | ListenAddress::Tls(address) => {
            ask_over(TcpStream::connect(address).await?, method, path).await
        }
    }
}

async fn ask_over<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    stream: S,
    method: Method,
    path: &str,
) -> anyhow::Result<Incoming> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // The task ends with the process, or when the other side closes. An error of it also shows as an error of the body.
    tokio::spawn(connection);
    let request = Request::builder().method(method).uri(path);
    let request = request.header("host", "localhost");
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
