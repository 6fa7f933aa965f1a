//! The client that queries a running program's state.

use std::{io, time::Duration};

use anyhow::{Context, bail};
use clap::ValueEnum;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{
    Request,
    body::{Bytes, Incoming},
    client::conn::http1,
};
use hyper_util::rt::TokioIo;
use proto::text::printable;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
    time::timeout,
};

use crate::listen::ListenAddress;

/// The time-out until an answer begins, or for a whole short answer.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest short answer, in bytes.
const MAX_ANSWER: usize = 64 << 20;

/// How something is printed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub enum Output {
    /// Plain text
    #[default]
    Text,
    /// JSON, one object a line
    Json,
}

/// A connection to an inspect server: a socket, or a port-forward.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Connection for S {}

/// Connects to the address.
///
/// # Errors
/// Those of the socket.
pub async fn connect(address: &ListenAddress) -> io::Result<Box<dyn Connection>> {
    Ok(match address {
        ListenAddress::Unix(unix) => Box::new(UnixStream::connect(&unix.path).await?),
        ListenAddress::Tcp(address) | ListenAddress::Tls(address) => {
            Box::new(TcpStream::connect(address).await?)
        }
    })
}

/// The successful answer to a GET.
///
/// # Errors
/// The connection fails, or the program refuses with a message.
pub async fn get(connection: Box<dyn Connection>, path: &str) -> anyhow::Result<Incoming> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(connection)).await?;
    // The task ends with the process, or when the other side closes. An error of it also shows as an error of the body.
    tokio::spawn(connection);
    let request = Request::builder().uri(path);
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

/// The whole answer to a GET.
///
/// # Errors
/// Those of [`get`], and an answer that does not end within [`ANSWER_TIMEOUT`].
pub async fn get_bytes(connection: Box<dyn Connection>, path: &str) -> anyhow::Result<Bytes> {
    let answered = timeout(ANSWER_TIMEOUT, async {
        let body = get(connection, path).await?;
        let collected = Limited::new(body, MAX_ANSWER).collect().await;
        collected
            .map(|body| body.to_bytes())
            .map_err(anyhow::Error::from_boxed)
    });
    answered.await.context("it does not answer in time")?
}
