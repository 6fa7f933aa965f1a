//! TCP connections to a server, which are reused (RFC 7766 section 6.2.1), but by one query at a
//! time. CoreDNS answers the queries of a connection in order, so a slow name would delay those
//! behind it.

use futures_util::StreamExt;
use hickory_net::{
    NetError,
    proto::op::{DnsRequest, DnsResponse},
    xfer::{DnsExchange, DnsHandle},
};
use parking_lot::Mutex;

use super::provider::Provider;

/// The idle connections, never more than the most queries that ran at once.
#[derive(Default)]
pub(super) struct Connections {
    idle: Mutex<Vec<DnsExchange<Provider>>>,
}

impl Connections {
    /// Sends the query and returns the first answer that `fits`. `connect` makes a new connection. If the server has closed a reused
    /// connection, as it may at any time, the query is sent over a new one. A connection without an
    /// answer is not reused.
    ///
    /// # Errors
    /// No connection, every connection broke, or no answer in time.
    pub(super) async fn ask(
        &self,
        connect: impl Future<Output = Result<DnsExchange<Provider>, NetError>>,
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
        let connection = connect.await?;
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
