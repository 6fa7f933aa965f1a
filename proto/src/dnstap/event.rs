//! The borrowed view of an event.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, SystemTime};

use super::wire::{Cursor, bytes_key, fixed32_key, varint_key};
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
    /// Which server or client saw which message. `Unknown(0)`, which the schema never assigns, if the event does not say.
    pub kind: MessageKind,
    /// The kind of both addresses.
    pub socket_family: Option<SocketFamily>,
    /// What carried the message.
    pub socket_protocol: Option<SocketProtocol>,
    /// The address of the side that asks. Its length alone says whether it is IPv4 or IPv6; nothing if that is neither 4 nor
    /// 16, since the rest of the event is as good without it. Not canonical: it may be IPv4-mapped.
    pub query_address: Option<IpAddr>,
    /// The address of the side that answers, read as `query_address` is.
    pub response_address: Option<IpAddr>,
    /// The port of the side that asks; nothing if it is larger than a port can be.
    pub query_port: Option<u16>,
    /// The port of the side that answers; nothing if it is larger than a port can be.
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
        let mut parts = Parts::new();
        parts.dnstap(event)?;
        Ok(parts.into_event())
    }
}

/// An event while it is read.
struct Parts<'a> {
    event: Event<'a>,
    // They may come before their seconds.
    query_nanoseconds: u32,
    response_nanoseconds: u32,
}

impl<'a> Parts<'a> {
    #[inline(always)]
    fn new() -> Self {
        Self {
            event: Event {
                identity: &[],
                version: &[],
                extra: &[],
                kind: MessageKind::Unknown(0),
                socket_family: None,
                socket_protocol: None,
                query_address: None,
                response_address: None,
                query_port: None,
                response_port: None,
                query_time: None,
                response_time: None,
                query_message: None,
                response_message: None,
                query_zone: None,
            },
            query_nanoseconds: 0,
            response_nanoseconds: 0,
        }
    }

    // Both walks are out of line, so that each value goes to its place in memory at once instead of
    // waiting for one of the few registers.

    #[inline(never)]
    fn dnstap(&mut self, bytes: &'a [u8]) -> Result<(), Error> {
        const IDENTITY: u32 = bytes_key(1);
        const VERSION: u32 = bytes_key(2);
        const EXTRA: u32 = bytes_key(3);
        const MESSAGE: u32 = bytes_key(14);
        const TYPE: u32 = varint_key(15);
        const KNOWN: &[u32] = &[1, 2, 3, 14, 15];

        let mut cursor = Cursor::new(bytes, bytes.len(), 0);
        while let Some(key) = cursor.next_key()? {
            match key {
                IDENTITY => self.event.identity = cursor.bytes()?,
                VERSION => self.event.version = cursor.bytes()?,
                EXTRA => self.event.extra = cursor.bytes()?,
                MESSAGE => {
                    let message = cursor.bytes()?;
                    self.message(message, cursor.offset())?;
                }
                TYPE => drop(cursor.uint32()?),
                _ => cursor.other(key, KNOWN)?,
            }
        }
        Ok(())
    }

    #[inline(never)]
    fn message(&mut self, bytes: &'a [u8], end: usize) -> Result<(), Error> {
        const TYPE: u32 = varint_key(1);
        const SOCKET_FAMILY: u32 = varint_key(2);
        const SOCKET_PROTOCOL: u32 = varint_key(3);
        const QUERY_ADDRESS: u32 = bytes_key(4);
        const RESPONSE_ADDRESS: u32 = bytes_key(5);
        const QUERY_PORT: u32 = varint_key(6);
        const RESPONSE_PORT: u32 = varint_key(7);
        const QUERY_TIME_SEC: u32 = varint_key(8);
        const QUERY_TIME_NSEC: u32 = fixed32_key(9);
        const QUERY_MESSAGE: u32 = bytes_key(10);
        const QUERY_ZONE: u32 = bytes_key(11);
        const RESPONSE_TIME_SEC: u32 = varint_key(12);
        const RESPONSE_TIME_NSEC: u32 = fixed32_key(13);
        const RESPONSE_MESSAGE: u32 = bytes_key(14);
        const POLICY: u32 = bytes_key(15);
        const HTTP_PROTOCOL: u32 = varint_key(16);
        const KNOWN: &[u32] = &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];

        let mut cursor = Cursor::new(bytes, end, 1);
        let event = &mut self.event;
        while let Some(key) = cursor.next_key()? {
            match key {
                TYPE => event.kind = cursor.uint32()?.into(),
                SOCKET_FAMILY => event.socket_family = Some(cursor.uint32()?.into()),
                SOCKET_PROTOCOL => event.socket_protocol = Some(cursor.uint32()?.into()),
                QUERY_ADDRESS => event.query_address = address(cursor.bytes()?),
                RESPONSE_ADDRESS => event.response_address = address(cursor.bytes()?),
                QUERY_PORT => event.query_port = cursor.uint32()?.try_into().ok(),
                RESPONSE_PORT => event.response_port = cursor.uint32()?.try_into().ok(),
                QUERY_TIME_SEC => event.query_time = Some(whole(cursor.uint64()?)),
                QUERY_TIME_NSEC => self.query_nanoseconds = cursor.fixed32()?,
                QUERY_MESSAGE => event.query_message = Some(cursor.bytes()?),
                QUERY_ZONE => event.query_zone = Some(cursor.bytes()?),
                RESPONSE_TIME_SEC => event.response_time = Some(whole(cursor.uint64()?)),
                RESPONSE_TIME_NSEC => self.response_nanoseconds = cursor.fixed32()?,
                RESPONSE_MESSAGE => event.response_message = Some(cursor.bytes()?),
                POLICY => {
                    let policy = cursor.bytes()?;
                    check_policy(policy, cursor.offset())?;
                }
                HTTP_PROTOCOL => drop(cursor.uint32()?),
                _ => cursor.other(key, KNOWN)?,
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn into_event(mut self) -> Event<'a> {
        if let Some(time) = &mut self.event.query_time {
            time.nanoseconds = self.query_nanoseconds;
        }
        if let Some(time) = &mut self.event.response_time {
            time.nanoseconds = self.response_nanoseconds;
        }
        self.event
    }
}

fn whole(seconds: u64) -> Timestamp {
    Timestamp {
        seconds,
        nanoseconds: 0,
    }
}

/// Nothing here is of use to us, but a malformed policy makes a malformed event.
#[cold]
pub(super) fn check_policy(bytes: &[u8], end: usize) -> Result<(), Error> {
    const TYPE: u32 = bytes_key(1);
    const RULE: u32 = bytes_key(2);
    const ACTION: u32 = varint_key(3);
    const MATCH: u32 = varint_key(4);
    const VALUE: u32 = bytes_key(5);

    let mut cursor = Cursor::new(bytes, end, 2);
    while let Some(key) = cursor.next_key()? {
        match key {
            TYPE => drop(cursor.string()?),
            RULE | VALUE => drop(cursor.bytes()?),
            ACTION | MATCH => drop(cursor.uint32()?),
            _ => cursor.other(key, &[1, 2, 3, 4, 5])?,
        }
    }
    Ok(())
}

#[inline(always)]
pub(super) fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(v4).into());
    }
    <[u8; 16]>::try_from(bytes)
        .ok()
        .map(|v6| Ipv6Addr::from(v6).into())
}
