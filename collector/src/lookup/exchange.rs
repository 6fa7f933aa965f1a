//! One query to one server: sent, awaited and decoded.

use std::{io, time::Duration};

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
    provider::Provider,
    result::ServerReply,
};
use crate::{
    matching::{guards::SharedGuards, query_origin::OwnQueries},
    rules::notices::Rebinding,
};
use names::{Addresses, Failure};

/// The EDNS payload size: datagrams of this size pass any network without fragments (RFC 9715).
const PAYLOAD: u16 = 1232;

/// A query over UDP is sent once more if no answer comes.
const SENDINGS: u8 = 2;

pub(super) struct LookupQuery {
    name: dns::Name,
    query: Query,
    qtype: u16,
}

impl LookupQuery {
    /// `None` if hickory cannot encode the name; it can encode every [`DnsName`].
    pub(super) fn new(name: &DnsName, family: Family) -> Option<Self> {
        let (record_type, qtype) = match family {
            Family::V4 => (RecordType::A, dns::TYPE_A),
            Family::V6 => (RecordType::AAAA, dns::TYPE_AAAA),
        };
        let written = Name::from_ascii(name.as_str()).ok()?;
        Some(Self {
            name: name.into(),
            query: Query::query(written, record_type),
            qtype,
        })
    }

    /// A request with a fresh identifier.
    fn request(&self, resend: Duration) -> DnsRequest {
        let mut options = DnsRequestOptions::default();
        options.use_edns = true;
        options.edns_payload_len = PAYLOAD;
        options.recursion_desired = true;
        options.retry_interval = resend;
        DnsRequest::from_query(self.query.clone(), options)
    }

    /// Whether the reply is for this question.
    fn is_of(&self, reply: &dns::Response<'_>) -> bool {
        let question = reply.question();
        question.name == self.name
            && question.qtype == self.qtype
            && question.qclass == dns::CLASS_IN
    }
}

pub(super) struct Exchange {
    provider: Provider,
    guards: SharedGuards,
    config: Config,
}

impl Exchange {
    pub(super) fn new(config: Config, guards: SharedGuards, own: OwnQueries) -> Self {
        Self {
            provider: Provider::new(own),
            guards,
            config,
        }
    }

    /// Queries one server within its limits of time and of queries in flight. Notifies `sending`
    /// when the server has a permit for the query. Gives up early if the server is silent and
    /// another of the `pool` is not.
    pub(super) async fn ask(
        &self,
        pool: &Pool,
        upstream: &Upstream,
        transport: Transport,
        question: &LookupQuery,
        sending: &Notify,
    ) -> Result<ServerReply, Failure> {
        let permit = match upstream.permits.try_acquire() {
            Ok(permit) => permit,
            Err(_) => tokio::select! {
                // The semaphore is never closed.
                permit = upstream.permits.acquire() => permit.map_err(|_| Failure::NoServer)?,
                () = pool.better_elsewhere(upstream) => return failed(Failure::Timeout),
            },
        };
        sending.notify_one();
        let sent = Instant::now();
        // Only the server's usual transport shows whether it is alive: a server that answers over
        // UDP may have broken TCP.
        let tells = transport == upstream.transport();
        let silence = async {
            sleep(self.config.silence).await;
            if tells {
                upstream.unanswered_since(sent);
            }
            pool.better_elsewhere(upstream).await;
        };
        let reply = tokio::select! {
            reply = timeout(self.config.timeout, self.send(upstream, transport, question)) => {
                reply.unwrap_or(Err(Failure::Timeout))
            }
            () = silence => Err(Failure::Timeout),
        };
        drop(permit);
        match reply {
            Ok(_) | Err(Failure::BadReply) => upstream.answered(),
            Err(Failure::Timeout) if tells => upstream.unanswered_since(sent),
            Err(failure @ Failure::Network(_)) if tells => upstream.fell_silent(failure),
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

    /// Queries a silent server once, to find out whether it answers again.
    pub(super) async fn retry(&self, upstream: &Upstream, name: &DnsName) {
        let Some(question) = LookupQuery::new(name, Family::V4) else {
            return;
        };
        let (nobody_else, transport) = (Pool::default(), upstream.transport());
        // The server's state has the result.
        let _ = self
            .ask(&nobody_else, upstream, transport, &question, &Notify::new())
            .await;
    }

    async fn send(
        &self,
        upstream: &Upstream,
        transport: Transport,
        question: &LookupQuery,
    ) -> Result<ServerReply, Failure> {
        let request = question.request(self.config.resend);
        let response = match transport {
            Transport::Udp => self.send_udp(upstream, request).await,
            Transport::Tcp => self.send_tcp(upstream, request, question).await,
        };
        self.read(question, &response.map_err(|error| failure(&error))?)
    }

    /// hickory binds a socket with a random port for each sending. It ignores replies with another
    /// identifier or question.
    async fn send_udp(
        &self,
        upstream: &Upstream,
        request: DnsRequest,
    ) -> Result<DnsResponse, NetError> {
        let mut client = UdpClientStream::builder(upstream.server.address, self.provider.clone())
            .with_timeout(Some(self.config.timeout))
            .with_max_retries(SENDINGS)
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
        question: &LookupQuery,
    ) -> Result<DnsResponse, NetError> {
        counter!("egress_collector_lookup_queries_total", "transport" => "tcp").increment(1);
        let (server, timeout) = (upstream.server.address, self.config.timeout);
        let connect =
            TcpClientStream::exchange(server, None, timeout, Some(1), self.provider.clone());
        let fits = |response: &DnsResponse| {
            dns::Response::parse(response.as_buffer()).is_ok_and(|reply| question.is_of(&reply))
        };
        upstream.connections.ask(connect, &request, fits).await
    }

    /// Decodes with the same decoder as dnstap events, so that both give the same addresses.
    fn read(&self, question: &LookupQuery, response: &DnsResponse) -> Result<ServerReply, Failure> {
        let reply = dns::Response::parse(response.as_buffer()).map_err(|_| Failure::BadReply)?;
        if !reply.is_response() || reply.opcode() != dns::OPCODE_QUERY || !question.is_of(&reply) {
            return Err(Failure::BadReply);
        }
        // The upper bits are in the OPT record, which the decoder does not read.
        let rcode = u16::from(response.metadata.response_code);
        let guards = self.guards.load();
        let mut addresses = Addresses::new();
        let mut refused = None;
        if rcode == u16::from(dns::RCODE_NOERROR) {
            reply
                .addresses(|address, ttl| match guards.admit(address) {
                    Ok(address) => addresses.push((address, ttl)),
                    Err(reason) => {
                        refused = Some((address, reason));
                        counter!("egress_collector_addresses_refused_total", "reason" => reason)
                            .increment(1);
                    }
                })
                .map_err(|_| Failure::BadReply)?;
        }
        if let (Some((address, reason)), Ok(name)) = (refused, DnsName::try_from(&question.name)) {
            let rebinding = Rebinding {
                name,
                address,
                reason,
            };
            self.config.rebindings.tell(vec![rebinding], 1);
        }
        Ok(ServerReply {
            rcode,
            truncated: reply.truncated(),
            addresses,
            refused: refused.is_some(),
        })
    }
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
