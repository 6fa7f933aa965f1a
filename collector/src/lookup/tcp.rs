//! The TCP connections to a server, used again and again (RFC 7766 section 6.2.1), but each by one query at a time: CoreDNS
//! answers the queries of a connection one after the other, so a slow name would hold up those behind it.

use std::{net::SocketAddr, time::Duration};

use futures_util::StreamExt;
use hickory_net::{
    NetError,
    proto::op::{DnsRequest, DnsResponse},
    tcp::TcpClientStream,
    xfer::{DnsExchange, DnsHandle},
};
use parking_lot::Mutex;

use super::provider::Provider;

/// What a new connection needs to know.
pub(super) struct Dial<'a> {
    pub(super) provider: &'a Provider,
    pub(super) server: SocketAddr,
    /// How long an answer may take.
    pub(super) timeout: Duration,
}

impl Dial<'_> {
    async fn connect(&self) -> Result<DnsExchange<Provider>, NetError> {
        let provider = self.provider.clone();
        TcpClientStream::exchange(self.server, None, self.timeout, Some(1), provider).await
    }
}

/// The connections that nobody uses now. There are never more than there were queries at the same time.
#[derive(Default)]
pub(super) struct Connections {
    idle: Mutex<Vec<DnsExchange<Provider>>>,
}

impl Connections {
    /// Asks, and gives the first answer that `fits`. A connection that the server had closed in the meantime, as it may at
    /// any time, is made anew; one that brought no answer is not used again.
    ///
    /// # Errors
    /// No connection, none that lasts, or no answer in time.
    pub(super) async fn ask(
        &self,
        dial: &Dial<'_>,
        request: &DnsRequest,
        fits: impl Fn(&DnsResponse) -> bool,
    ) -> Result<DnsResponse, NetError> {
        let idle = self.idle.lock().pop();
        if let Some(connection) = idle {
            match first(&connection, request, &fits).await {
                Ok(response) => {
                    self.idle.lock().push(connection);
                    return Ok(response);
                }
                Err(NetError::Timeout) => return Err(NetError::Timeout),
                Err(_) => {}
            }
        }
        let connection = dial.connect().await?;
        let response = first(&connection, request, &fits).await?;
        self.idle.lock().push(connection);
        Ok(response)
    }
}

async fn first(
    connection: &DnsExchange<Provider>,
    request: &DnsRequest,
    fits: impl Fn(&DnsResponse) -> bool,
) -> Result<DnsResponse, NetError> {
    let mut responses = connection.send(request.clone());
    while let Some(response) = responses.next().await {
        let response = response?;
        if fits(&response) {
            return Ok(response);
        }
    }
    Err(NetError::Timeout)
}
