//! What is wanted of the responses to clients, and nothing of any other event.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{pb, usual};

/// A point in time as dnstap gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Seconds since the Unix epoch, as the server's clock has it.
    pub seconds: u64,
    /// The part under a second, in nanoseconds. Not checked: a sender may say more than 999,999,999.
    pub nanoseconds: u32,
}

/// A CLIENT_RESPONSE event as far as its answer matters, borrowed from the frame it came in.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ClientResponse<'a> {
    /// Free text of the server's operator; empty if there is none. Any bytes.
    pub extra: &'a [u8],
    /// The response as it was on the wire, unchecked.
    pub message: Option<&'a [u8]>,
    pub(super) client: &'a [u8],
    pub(super) port: Option<u32>,
    pub(super) seconds: Option<u64>,
    pub(super) nanoseconds: u32,
}

impl<'a> ClientResponse<'a> {
    /// Reads the payload of a data frame that is laid out as CoreDNS does it: what prost and [`of`](Self::of) would make of it, by
    /// comparing it with a pattern instead of walking through its fields. Nothing if it has another layout, or is malformed.
    #[inline(always)]
    pub fn parse_usual(event: &'a [u8]) -> Option<Option<Self>> {
        usual::read(event)
    }

    /// The part of an event that prost read; nothing if the event is of another kind.
    pub fn of(event: &'a pb::Dnstap) -> Option<Self> {
        const THIS: i32 = pb::message::Type::ClientResponse as i32;
        let message = event.message.as_ref().filter(|it| it.r#type == THIS)?;
        Some(Self {
            extra: event.extra(),
            message: message.response_message.as_deref(),
            client: message.query_address(),
            port: message.query_port,
            seconds: message.response_time_sec,
            nanoseconds: message.response_time_nsec(),
        })
    }

    /// The address of the client that asked. Its length alone says whether it is IPv4 or IPv6; nothing if that is neither 4 nor 16, since the
    /// rest of the event is as good without it. Not canonical: it may be IPv4-mapped.
    #[must_use]
    pub fn client(&self) -> Option<IpAddr> {
        address(self.client)
    }

    /// The port of the client that asked; nothing if it is larger than a port can be.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.port?.try_into().ok()
    }

    /// When the response was seen; nothing if the event does not give the seconds.
    #[must_use]
    pub fn time(&self) -> Option<Timestamp> {
        Some(Timestamp {
            seconds: self.seconds?,
            nanoseconds: self.nanoseconds,
        })
    }
}

/// An address of an event. Its length alone says whether it is IPv4 or IPv6; nothing if that is neither 4 nor 16. It may be IPv4-mapped.
#[must_use]
pub fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(|it| Ipv4Addr::from(it).into());
    let address = v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(|it| Ipv6Addr::from(it).into()));
    address.ok()
}
