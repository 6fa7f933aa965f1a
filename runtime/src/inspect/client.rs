//! The client that queries a running program's state.

use std::io;

use anyhow::bail;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{
    Method, Request,
    body::{Bytes, Incoming},
    client::conn::http1,
};
use hyper_util::rt::TokioIo;
use proto::text::printable;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
};

use crate::listen::ListenAddress;

/// The longest short answer, in bytes.
const MAX_ANSWER: usize = 64 << 20;

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

/// The successful answer to a request without a body.
///
/// # Errors
/// The connection fails, or the program refuses with a message.
pub async fn request(
    method: Method,
    connection: Box<dyn Connection>,
    path: &str,
) -> anyhow::Result<Incoming> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(connection)).await?;
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

/// The whole answer to a GET, of at most 64 MiB.
///
/// # Errors
/// Those of [`request`].
pub async fn get_bytes(connection: Box<dyn Connection>, path: &str) -> anyhow::Result<Bytes> {
    let body = Limited::new(request(Method::GET, connection, path).await?, MAX_ANSWER);
    let collected = body.collect().await.map_err(anyhow::Error::from_boxed)?;
    Ok(collected.to_bytes())
}
