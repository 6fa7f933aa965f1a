//! The admin server of a program, for tests.

use std::{io, net::SocketAddr, path::Path, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpStream, UnixStream},
    time::timeout,
};

/// The admin server of a running program.
#[derive(Clone, Copy, Debug)]
pub struct Admin {
    address: SocketAddr,
}

impl Admin {
    /// The admin server at this address.
    pub fn new(address: SocketAddr) -> Self {
        Self { address }
    }

    /// Where it listens.
    pub fn address(self) -> SocketAddr {
        self.address
    }

    /// Gets a path: the status code and the body.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn get(self, path: &str) -> io::Result<(u16, String)> {
        get_over(TcpStream::connect(self.address), path).await
    }

    /// Checks that `/readyz` succeeds; otherwise returns its text.
    ///
    /// # Errors
    /// The program is not ready, or does not answer.
    pub async fn ready(self) -> Result<(), String> {
        match self.get("/readyz").await {
            Ok((200, _)) => Ok(()),
            Ok((status, body)) => Err(format!("{status}: {}", body.trim())),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The sum of all samples of a metric whose labels contain every one of `labels`, written `key="value"`; 0 if there
    /// are none.
    ///
    /// # Errors
    /// The program does not answer.
    pub async fn metric(self, name: &str, labels: &[&str]) -> io::Result<f64> {
        let (_, text) = self.get("/metrics").await?;
        let value = |line: &str| {
            let (sample, value) = line.rsplit_once(' ')?;
            let (metric, found) = sample.split_once('{').unwrap_or((sample, ""));
            let wanted = metric == name && labels.iter().all(|label| found.contains(label));
            wanted.then(|| value.parse::<f64>().ok())?
        };
        Ok(text.lines().filter_map(value).sum())
    }
}

/// [`Admin::get`] from a server on a unix socket.
///
/// # Errors
/// Those of the connection.
pub async fn get_over_unix(socket: &Path, path: &str) -> io::Result<(u16, String)> {
    get_over(UnixStream::connect(socket), path).await
}

async fn get_over<S: AsyncRead + AsyncWrite + Unpin>(
    connect: impl Future<Output = io::Result<S>>,
    path: &str,
) -> io::Result<(u16, String)> {
    let exchange = async {
        let mut stream = connect.await?;
        // HTTP/1.0, so that the server closes at the end of the body.
        let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply).await?;
        io::Result::Ok(reply)
    };
    let reply = timeout(Duration::from_secs(5), exchange).await??;
    let malformed = || io::Error::other(format!("no HTTP reply: {reply:?}"));
    let (head, body) = reply.split_once("\r\n\r\n").ok_or_else(malformed)?;
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    Ok((status.ok_or_else(malformed)?, body.to_owned()))
}
