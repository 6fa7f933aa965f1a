//! The parts of CLIENT_RESPONSE events that the collector needs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{pb, usual};
use crate::address::canonical;

/// A point in time as dnstap gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Seconds since the Unix epoch, by the server's clock.
    pub seconds: u64,
    /// The sub-second part, in nanoseconds. Not checked: a sender may exceed 999,999,999.
    pub nanoseconds: u32,
}

/// The used parts of a CLIENT_RESPONSE event, borrowed from its frame.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ClientResponse<'a> {
    /// Free text from the server's operator, any bytes; may be empty.
    pub extra: &'a [u8],
    /// The response as it was on the wire, unchecked.
    pub message: Option<&'a [u8]>,
    pub(super) client: &'a [u8],
    pub(super) port: Option<u32>,
    pub(super) seconds: Option<u64>,
    pub(super) nanoseconds: u32,
}

impl<'a> ClientResponse<'a> {
    /// Reads the payload of a data frame in CoreDNS's layout, with the same result as prost and [`of`](Self::of). It
    /// compares the bytes with a pattern instead of decoding field by field.
    ///
    /// `None` means another layout or a malformed event. `Some(None)` means an event of another kind.
    #[inline(always)]
    pub fn parse_usual(event: &'a [u8]) -> Option<Option<Self>> {
        usual::read(event)
    }

    /// The event of a response of which nothing else is known.
    pub fn of_message(message: &'a [u8]) -> Self {
        Self {
            message: Some(message),
            ..Self::default()
        }
    }

    /// The used parts of an event that prost decoded; `None` if the event is of another kind.
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

    /// The address of the client, [canonical]: CoreDNS before 1.14.5 sends IPv4 as
    /// IPv4-mapped IPv6. Its length tells IPv4 from IPv6; `None` if that is neither 4 nor 16, since the rest of the
    /// event is still usable.
    #[must_use]
    pub fn client(&self) -> Option<IpAddr> {
        let v4 = <[u8; 4]>::try_from(self.client).map(|it| Ipv4Addr::from(it).into());
        let v6 = || <[u8; 16]>::try_from(self.client).map(|it| Ipv6Addr::from(it).into());
        v4.or_else(|_| v6()).ok().map(canonical)
    }

    /// The port of the client; `None` if the number is no valid port.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.port?.try_into().ok()
    }

    /// When the server sent the response; `None` if the event does not give the seconds.
    #[must_use]
    pub fn time(&self) -> Option<Timestamp> {
        Some(Timestamp {
            seconds: self.seconds?,
            nanoseconds: self.nanoseconds,
        })
    }
}
