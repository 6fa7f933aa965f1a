//! The TCP connection to a server, shared by all queries to it (RFC 7766 section 6.2.1).

use std::{
    net::SocketAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::StreamExt;
use hickory_net::{
    NetError,
    proto::op::{DnsRequest, DnsResponse},
    tcp::TcpClientStream,
    xfer::{DnsExchange, DnsHandle},
};

use super::provider::Provider;

/// What a new connection needs to know.
pub(super) struct Dial<'a> {
    pub(super) provider: &'a Provider,
    pub(super) server: SocketAddr,
    /// How many queries may be in flight on it.
    pub(super) queries: usize,
    /// How long an answer may take.
    pub(super) timeout: Duration,
}

/// A connection that is made when it is needed, and made anew when it broke.
#[derive(Default)]
pub(super) struct Connection {
    current: Mutex<Current>,
    /// Held by the one who makes it.
    dialling: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Current {
    exchange: Option<DnsExchange<Provider>>,
    /// The number of connections made so far.
    number: u64,
}

impl Connection {
    /// Asks, and gives the first answer that `fits`. A connection that the server had closed in the meantime, as it may at
    /// any time, is made anew once.
    ///
    /// # Errors
    /// No connection, none that lasts, or no answer in time.
    pub(super) async fn ask(
        &self,
        dial: &Dial<'_>,
        request: &DnsRequest,
        fits: impl Fn(&DnsResponse) -> bool,
    ) -> Result<DnsResponse, NetError> {
        let (mut exchange, mut use_of) = self.get(dial).await?;
        loop {
            let fresh = use_of.fresh;
            let error = match first(&exchange, request, &fits).await {
                Ok(response) => {
                    use_of.works = true;
                    return Ok(response);
                }
                Err(error) => error,
            };
            drop(use_of);
            if fresh || matches!(error, NetError::Timeout) {
                return Err(error);
            }
            (exchange, use_of) = self.get(dial).await?;
        }
    }

    async fn get(&self, dial: &Dial<'_>) -> Result<(DnsExchange<Provider>, Use<'_>), NetError> {
        if let Some(current) = self.shared() {
            return Ok(current);
        }
        let _dialling = self.dialling.lock().await;
        if let Some(current) = self.shared() {
            return Ok(current);
        }
        let exchange = TcpClientStream::exchange(
            dial.server,
            None,
            dial.timeout,
            Some(dial.queries),
            dial.provider.clone(),
        )
        .await?;
        let mut current = self.current();
        current.number += 1;
        current.exchange = Some(exchange.clone());
        let use_of = self.use_of(current.number, true);
        Ok((exchange, use_of))
    }

    fn shared(&self) -> Option<(DnsExchange<Provider>, Use<'_>)> {
        let current = self.current();
        let exchange = current.exchange.clone()?;
        Some((exchange, self.use_of(current.number, false)))
    }

    fn use_of(&self, number: u64, fresh: bool) -> Use<'_> {
        Use {
            connection: self,
            number,
            fresh,
            works: false,
        }
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        // Every change is whole before anything can panic.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn first(
    exchange: &DnsExchange<Provider>,
    request: &DnsRequest,
    fits: impl Fn(&DnsResponse) -> bool,
) -> Result<DnsResponse, NetError> {
    let mut responses = exchange.send(request.clone());
    while let Some(response) = responses.next().await {
        let response = response?;
        if fits(&response) {
            return Ok(response);
        }
    }
    Err(NetError::Timeout)
}

/// One query's use of a connection. Unless it works, nobody uses that connection again: it may lead to a server that is
/// gone, which TCP notices only after minutes.
struct Use<'a> {
    connection: &'a Connection,
    number: u64,
    fresh: bool,
    works: bool,
}

impl Drop for Use<'_> {
    fn drop(&mut self) {
        let mut current = self.connection.current();
        if !self.works && current.number == self.number {
            current.exchange = None;
        }
    }
}
