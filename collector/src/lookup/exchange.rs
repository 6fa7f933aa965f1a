//! One query to one server: sent, awaited and decoded.

use std::{future::pending, io, sync::Arc};

use hickory_net::{
    NetError,
    proto::{
        op::{DnsRequest, DnsRequestOptions, DnsResponse, Query},
        rr::{Name, RecordType},
    },
    tcp::TcpClientStream,
    udp::UdpClientStream,
    xfer::{DnsRequestSender, FirstAnswer},
};
use metrics::{counter, histogram};
use proto::{
    api::{DnsName, Family},
    dns,
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep, timeout},
};

use super::{
    Config,
    pool::{Pool, Transport, Upstream},
    result::ServerReply,
    sockets::Provider,
};
use crate::matching::query_origin::OwnQueries;
use names::{Addresses, Failure};

/// The EDNS payload size: datagrams of this size pass any network without fragments (RFC 9715).
const PAYLOAD: u16 = 1232;

/// A name and family to query.
pub(super) struct LookupQuery {
    pub(super) family: Family,
    name: dns::Name,
    query: Query,
}

impl LookupQuery {
    /// `None` if hickory cannot encode the name; it can encode every [`DnsName`].
    pub(super) fn new(name: &DnsName, family: Family) -> Option<Self> {
        let record_type = match family {
            Family::V4 => RecordType::A,
            Family::V6 => RecordType::AAAA,
        };
        let written = Name::from_ascii(name.as_str()).ok()?;
        Some(Self {
            family,
            name: name.into(),
            query: Query::query(written, record_type),
        })
    }

    /// A request with a fresh identifier.
    fn request(&self) -> DnsRequest {
        let mut options = DnsRequestOptions::default();
        options.use_edns = true;
        options.edns_payload_len = PAYLOAD;
        options.recursion_desired = true;
        DnsRequest::from_query(self.query.clone(), options)
    }

    /// Whether the reply is for this question.
    fn is_of(&self, reply: &dns::Response<'_>) -> bool {
        let question = reply.question();
        question.name == self.name
            && question.qtype == u16::from(self.query.query_type())
            && question.qclass == dns::CLASS_IN
    }
}

/// A query to one server.
pub(super) struct QueryInFlight<'a> {
    pub(super) query: &'a LookupQuery,
    pub(super) server: Arc<Upstream>,
    pub(super) transport: Transport,
}

impl<'a> QueryInFlight<'a> {
    pub(super) fn new(query: &'a LookupQuery, server: &Arc<Upstream>) -> Self {
        Self {
            query,
            server: Arc::clone(server),
            transport: Transport::Udp,
        }
    }

    pub(super) fn over_tcp(self) -> Self {
        Self {
            transport: Transport::Tcp,
            ..self
        }
    }
}

pub(super) struct Exchange {
    pub(super) config: Config,
    provider: Provider,
}

impl Exchange {
    pub(super) fn new(config: Config, own: OwnQueries) -> Self {
        Self {
            config,
            provider: Provider::new(own),
        }
    }

    /// Queries one server within its limits of time and of queries in flight. Notifies `sending`
    /// when the server has a permit for the query. Gives up early if the server is silent and
    /// another of the `pool` is not.
    pub(super) async fn ask(
        &self,
        pool: &Pool,
        query: &QueryInFlight<'_>,
        sending: &Notify,
    ) -> Result<ServerReply, Failure> {
        let (upstream, transport) = (&*query.server, query.transport);
        // The semaphore is never closed.
        let permit = upstream.permits.acquire().await;
        let permit = permit.map_err(|_| Failure::NoServer)?;
        sending.notify_one();
        upstream.asked();
        let sent = Instant::now();
        // A server that answers over UDP may have broken TCP.
        let shows_health = transport == Transport::Udp;
        let silence = async {
            sleep(self.config.silence).await;
            if shows_health {
                upstream.unanswered_since(sent);
            }
            if !pool.is_replaceable(upstream) {
                pending::<()>().await;
            }
        };
        let reply = tokio::select! {
            reply = timeout(self.config.timeout, self.send(query)) => {
                reply.unwrap_or(Err(Failure::Timeout))
            }
            () = silence => Err(Failure::Timeout),
        };
        drop(permit);
        match reply {
            Ok(_) | Err(Failure::BadReply) => upstream.answered(),
            Err(Failure::Timeout) if shows_health => upstream.unanswered_since(sent),
            Err(failure @ Failure::Network(_)) if shows_health => upstream.fell_silent(failure),
            Err(_) => {}
        }
        match reply {
            Ok(answer) => {
                histogram!("egress_collector_lookup_query_duration_seconds", "transport" => transport.as_str())
                    .record(sent.elapsed());
                if transport == Transport::Udp && answer.truncated {
                    counter!("egress_collector_lookup_truncated_total").increment(1);
                }
                Ok(answer)
            }
            Err(failure) => failed(failure),
        }
    }

    /// Asks again over UDP after a while: a datagram may be lost.
    async fn send(&self, query: &QueryInFlight<'_>) -> Result<ServerReply, Failure> {
        let first = self.send_once(query);
        if query.transport == Transport::Tcp {
            return first.await;
        }
        let again = async {
            sleep(self.config.resend).await;
            self.send_once(query).await
        };
        tokio::select! {
            reply = first => reply,
            reply = again => reply,
        }
    }

    async fn send_once(&self, query: &QueryInFlight<'_>) -> Result<ServerReply, Failure> {
        let request = query.query.request();
        let sent = match query.transport {
            Transport::Udp => self.send_udp(&query.server, request).await,
            Transport::Tcp => self.send_tcp(&query.server, request, query.query).await,
        };
        decode(query.query, &sent.map_err(|error| failure(&error))?)
    }

    /// hickory binds a socket with a random port. It ignores replies with another identifier or question.
    async fn send_udp(
        &self,
        upstream: &Upstream,
        request: DnsRequest,
    ) -> Result<DnsResponse, NetError> {
        let mut client = UdpClientStream::builder(upstream.server, self.provider.clone())
            .with_timeout(Some(self.config.timeout))
            .with_max_retries(1)
            // The kernel's choice avoids ports that are reserved on the host.
            .with_os_port_selection(true)
            .build();
        client.send_message(request).first_answer().await
    }

    /// hickory ignores replies with another identifier; comparing the question is up to the caller.
    async fn send_tcp(
        &self,
        upstream: &Upstream,
        request: DnsRequest,
        query: &LookupQuery,
    ) -> Result<DnsResponse, NetError> {
        counter!("egress_collector_lookup_queries_total", "transport" => "tcp").increment(1);
        let (server, timeout) = (upstream.server, self.config.timeout);
        let connect =
            TcpClientStream::exchange(server, None, timeout, Some(1), self.provider.clone());
        let fits = |response: &DnsResponse| {
            dns::Response::parse(response.as_buffer()).is_ok_and(|reply| query.is_of(&reply))
        };
        upstream.connections.ask(connect, &request, fits).await
    }
}

/// Decodes with the same decoder as dnstap events, so that both give the same addresses.
fn decode(query: &LookupQuery, response: &DnsResponse) -> Result<ServerReply, Failure> {
    let reply = dns::Response::parse(response.as_buffer()).map_err(|_| Failure::BadReply)?;
    if !reply.is_response() || reply.opcode() != dns::OPCODE_QUERY || !query.is_of(&reply) {
        return Err(Failure::BadReply);
    }
    // The upper bits are in the OPT record, which the decoder does not read.
    let rcode = u16::from(response.metadata.response_code);
    let mut addresses = Addresses::new();
    let mut read = Ok(());
    if rcode == u16::from(dns::RCODE_NOERROR) {
        read = reply.addresses(|address, ttl| addresses.push((address, ttl)));
    }
    if read.is_err() && addresses.is_empty() {
        return Err(Failure::BadReply);
    }
    Ok(ServerReply {
        rcode,
        truncated: reply.truncated() || read.is_err(),
        addresses,
    })
}

fn failed(failure: Failure) -> Result<ServerReply, Failure> {
    counter!("egress_collector_lookup_query_failures_total", "reason" => failure.label())
        .increment(1);
    Err(failure)
}

fn failure(error: &NetError) -> Failure {
    match error {
        NetError::Timeout => Failure::Timeout,
        NetError::Io(error) => Failure::Network(error.kind()),
        NetError::Proto(_) => Failure::BadReply,
        NetError::Busy => Failure::Network(io::ErrorKind::ResourceBusy),
        // The remaining errors are texts about closed connections.
        _ => Failure::Network(io::ErrorKind::ConnectionAborted),
    }
}
