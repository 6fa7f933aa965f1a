//! The borrowed view of an event.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, SystemTime};

use super::wire::Cursor;
use super::{Error, MessageKind, SocketFamily, SocketProtocol};

/// A point in time as dnstap gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Seconds since the Unix epoch, as the server's clock has it.
    pub seconds: u64,
    /// The part under a second, in nanoseconds. Not checked: a sender may say more than 999,999,999.
    pub nanoseconds: u32,
}

impl Timestamp {
    /// This time on the system's clock, or nothing if it is beyond what that can express.
    #[must_use]
    pub fn to_system_time(self) -> Option<SystemTime> {
        let whole = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(self.seconds))?;
        whole.checked_add(Duration::from_nanos(u64::from(self.nanoseconds)))
    }
}

/// An event, borrowed from the frame it came in.
///
/// Of a field that comes more than once the last value holds; messages that come more than once are merged. Fields and
/// values that the schema does not have are passed over. `Dnstap.type` is not looked at: an event that is no message
/// has no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// The name the DNS server goes by; empty if it gives none. Any bytes: escape them before they are shown.
    pub identity: &'a [u8],
    /// The server's software and version; empty if it gives none. Any bytes.
    pub version: &'a [u8],
    /// Free text of the server's operator; empty if there is none. Any bytes.
    pub extra: &'a [u8],
    /// Who saw which message. `Unknown(0)`, which the schema never assigns, if the event does not say.
    pub kind: MessageKind,
    /// The kind of both addresses.
    pub socket_family: Option<SocketFamily>,
    /// What carried the message.
    pub socket_protocol: Option<SocketProtocol>,
    /// The address of who asks. Its length alone says whether it is IPv4 or IPv6; nothing if that is neither 4 nor 16,
    /// since the rest of the event is as good without it. Not canonical: it may be IPv4-mapped.
    pub query_address: Option<IpAddr>,
    /// The address of who answers, read as `query_address` is.
    pub response_address: Option<IpAddr>,
    /// The port of who asks; nothing if it is larger than a port can be.
    pub query_port: Option<u16>,
    /// The port of who answers; nothing if it is larger than a port can be.
    pub response_port: Option<u16>,
    /// When the query was seen; nothing if the event does not give the seconds.
    pub query_time: Option<Timestamp>,
    /// When the response was seen; nothing if the event does not give the seconds.
    pub response_time: Option<Timestamp>,
    /// The query as it was on the wire, unchecked.
    pub query_message: Option<&'a [u8]>,
    /// The response as it was on the wire, unchecked.
    pub response_message: Option<&'a [u8]>,
    /// The zone the query was asked of, a name on the wire, unchecked.
    pub query_zone: Option<&'a [u8]>,
}

impl<'a> Event<'a> {
    /// Reads the payload of a data frame, in one pass and without allocating. The DNS messages in it are not looked at.
    ///
    /// # Errors
    ///
    /// If the bytes are not the protobuf of a dnstap event, with what is wrong and where.
    pub fn parse(event: &'a [u8]) -> Result<Self, Error> {
        let mut parts = Parts::default();
        let mut cursor = Cursor::new(event);
        while let Some(key) = cursor.next_key()? {
            match key.field {
                1 => parts.identity = cursor.bytes(key)?,
                2 => parts.version = cursor.bytes(key)?,
                3 => parts.extra = cursor.bytes(key)?,
                14 => parts.message(cursor.message(key)?)?,
                15 => drop(cursor.uint32(key)?),
                _ => cursor.skip(key)?,
            }
        }
        Ok(parts.into_event())
    }
}

/// The fields as they stand on the wire, the last of each.
#[derive(Default)]
struct Parts<'a> {
    identity: &'a [u8],
    version: &'a [u8],
    extra: &'a [u8],
    kind: u32,
    socket_family: Option<u32>,
    socket_protocol: Option<u32>,
    query_address: &'a [u8],
    response_address: &'a [u8],
    query_port: Option<u32>,
    response_port: Option<u32>,
    query_seconds: Option<u64>,
    query_nanoseconds: u32,
    response_seconds: Option<u64>,
    response_nanoseconds: u32,
    query_message: Option<&'a [u8]>,
    response_message: Option<&'a [u8]>,
    query_zone: Option<&'a [u8]>,
}

impl<'a> Parts<'a> {
    fn message(&mut self, mut cursor: Cursor<'a>) -> Result<(), Error> {
        while let Some(key) = cursor.next_key()? {
            match key.field {
                1 => self.kind = cursor.uint32(key)?,
                2 => self.socket_family = Some(cursor.uint32(key)?),
                3 => self.socket_protocol = Some(cursor.uint32(key)?),
                4 => self.query_address = cursor.bytes(key)?,
                5 => self.response_address = cursor.bytes(key)?,
                6 => self.query_port = Some(cursor.uint32(key)?),
                7 => self.response_port = Some(cursor.uint32(key)?),
                8 => self.query_seconds = Some(cursor.uint64(key)?),
                9 => self.query_nanoseconds = cursor.fixed32(key)?,
                10 => self.query_message = Some(cursor.bytes(key)?),
                11 => self.query_zone = Some(cursor.bytes(key)?),
                12 => self.response_seconds = Some(cursor.uint64(key)?),
                13 => self.response_nanoseconds = cursor.fixed32(key)?,
                14 => self.response_message = Some(cursor.bytes(key)?),
                15 => check_policy(cursor.message(key)?)?,
                // http_protocol.
                16 => drop(cursor.uint32(key)?),
                _ => cursor.skip(key)?,
            }
        }
        Ok(())
    }

    fn into_event(self) -> Event<'a> {
        let time = |seconds: Option<u64>, nanoseconds| {
            seconds.map(|seconds| Timestamp {
                seconds,
                nanoseconds,
            })
        };
        let port = |port: Option<u32>| port.and_then(|port| u16::try_from(port).ok());
        Event {
            identity: self.identity,
            version: self.version,
            extra: self.extra,
            kind: self.kind.into(),
            socket_family: self.socket_family.map(SocketFamily::from),
            socket_protocol: self.socket_protocol.map(SocketProtocol::from),
            query_address: address(self.query_address),
            response_address: address(self.response_address),
            query_port: port(self.query_port),
            response_port: port(self.response_port),
            query_time: time(self.query_seconds, self.query_nanoseconds),
            response_time: time(self.response_seconds, self.response_nanoseconds),
            query_message: self.query_message,
            response_message: self.response_message,
            query_zone: self.query_zone,
        }
    }
}

/// Nothing here is of use to us, but a malformed policy makes a malformed event.
#[cold]
fn check_policy(mut cursor: Cursor<'_>) -> Result<(), Error> {
    while let Some(key) = cursor.next_key()? {
        match key.field {
            1 => drop(cursor.string(key)?),
            2 | 5 => drop(cursor.bytes(key)?),
            3 | 4 => drop(cursor.uint32(key)?),
            _ => cursor.skip(key)?,
        }
    }
    Ok(())
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(v4).into());
    }
    <[u8; 16]>::try_from(bytes)
        .ok()
        .map(|v6| Ipv6Addr::from(v6).into())
}
