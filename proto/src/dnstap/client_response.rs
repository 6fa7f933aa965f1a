//! What is wanted of the responses to clients, and nothing of any other event.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{
    Error, pb, usual,
    wire::{Cursor, bytes_key, fixed32_key, varint_key},
};

/// A point in time as dnstap gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Seconds since the Unix epoch, as the server's clock has it.
    pub seconds: u64,
    /// The part under a second, in nanoseconds. Not checked: a sender may say more than 999,999,999.
    pub nanoseconds: u32,
}

/// A CLIENT_RESPONSE event as far as its answer matters, borrowed from the frame it came in.
///
/// The other fields are passed over, and an event of another kind is left as soon as its kind is known. Of a field that comes more than
/// once the last value holds; messages that come more than once are merged. Fields and values that the schema does not have are passed
/// over.
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
    /// Reads the payload of a data frame that is laid out as CoreDNS does it: what [`parse`](Self::parse) would make of it, by
    /// comparing it with a pattern instead of walking through its fields. Nothing if it has another layout, or is malformed.
    #[inline(always)]
    pub fn parse_usual(event: &'a [u8]) -> Option<Option<Self>> {
        usual::read(event)
    }

    /// Reads the payload of a data frame, in one pass and without allocating. Nothing if the first that it says of its kind
    /// is another one, or if it does not say.
    ///
    /// # Errors
    ///
    /// If the bytes are not the protobuf of a dnstap event, with what is wrong and where; of an event of another kind, only
    /// what comes before its kind is looked at.
    pub fn parse(event: &'a [u8]) -> Result<Option<Self>, Error> {
        const IDENTITY: u32 = bytes_key(1);
        const VERSION: u32 = bytes_key(2);
        const EXTRA: u32 = bytes_key(3);
        const MESSAGE: u32 = bytes_key(14);
        const TYPE: u32 = varint_key(15);
        const KNOWN: &[u32] = &[1, 2, 3, 14, 15];

        let mut response = Self::default();
        let mut is_one = false;
        let mut cursor = Cursor::new(event, event.len(), 0);
        while let Some(key) = cursor.next_key()? {
            match key {
                IDENTITY | VERSION => drop(cursor.bytes()?),
                EXTRA => response.extra = cursor.bytes()?,
                MESSAGE => {
                    let message = cursor.bytes()?;
                    match response.read(message, cursor.offset())? {
                        Kind::Unsaid => {}
                        Kind::This => is_one = true,
                        Kind::Another => return Ok(None),
                    }
                }
                TYPE => cursor.skip_varint()?,
                _ => cursor.other(key, KNOWN)?,
            }
        }
        Ok(is_one.then_some(response))
    }

    #[inline]
    fn read(&mut self, message: &'a [u8], end: usize) -> Result<Kind, Error> {
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
        const THIS: u32 = pb::message::Type::ClientResponse as u32;

        let mut kind = Kind::Unsaid;
        let mut cursor = Cursor::new(message, end, 1);
        while let Some(key) = cursor.next_key()? {
            match key {
                TYPE if cursor.uint32()? == THIS => kind = Kind::This,
                TYPE => return Ok(Kind::Another),
                SOCKET_FAMILY | SOCKET_PROTOCOL | RESPONSE_PORT | QUERY_TIME_SEC
                | HTTP_PROTOCOL => {
                    cursor.skip_varint()?;
                }
                QUERY_ADDRESS => self.client = cursor.bytes()?,
                RESPONSE_ADDRESS | QUERY_MESSAGE | QUERY_ZONE => drop(cursor.bytes()?),
                QUERY_PORT => self.port = Some(cursor.uint32()?),
                QUERY_TIME_NSEC => drop(cursor.fixed32()?),
                RESPONSE_TIME_SEC => self.seconds = Some(cursor.uint64()?),
                RESPONSE_TIME_NSEC => self.nanoseconds = cursor.fixed32()?,
                RESPONSE_MESSAGE => self.message = Some(cursor.bytes()?),
                POLICY => {
                    let policy = cursor.bytes()?;
                    check_policy(policy, cursor.offset())?;
                }
                _ => cursor.other(key, KNOWN)?,
            }
        }
        Ok(kind)
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

/// What a message says of its kind.
enum Kind {
    Unsaid,
    This,
    Another,
}

/// Nothing here is of use to us, but a malformed policy makes a malformed event.
#[cold]
fn check_policy(bytes: &[u8], end: usize) -> Result<(), Error> {
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

/// An address of an event. Its length alone says whether it is IPv4 or IPv6; nothing if that is neither 4 nor 16. It may be IPv4-mapped.
#[must_use]
pub fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(|it| Ipv4Addr::from(it).into());
    let address = v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(|it| Ipv6Addr::from(it).into()));
    address.ok()
}
