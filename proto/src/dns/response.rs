//! A response: header, question, and the addresses that the answer section gives to the question.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use smallvec::SmallVec;

use super::{
    CLASS_IN, TYPE_A, TYPE_AAAA, TYPE_CNAME,
    name::of_question,
    qname::Qname,
    wire::{Error, HEADER, NameAt, Names, octets},
};
use crate::address::canonical;

/// The maximum number of CNAME records in an answer section; no resolver follows a longer chain.
pub const MAX_ALIASES: usize = 32;

/// The first twelve octets of a message (RFC 1035 section 4.1.1).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Header {
    id: u16,
    flags: u16,
    questions: u16,
    answers: u16,
}

impl Header {
    /// Reads the header alone: the cheapest way to discard a message.
    ///
    /// # Errors
    /// [`Error::Truncated`] if there are fewer than twelve octets.
    #[inline]
    pub fn parse(message: &[u8]) -> Result<Self, Error> {
        let [a, b, c, d, e, f, g, h, ..] = octets::<HEADER>(message, 0)?;
        Ok(Self {
            id: u16::from_be_bytes([a, b]),
            flags: u16::from_be_bytes([c, d]),
            questions: u16::from_be_bytes([e, f]),
            answers: u16::from_be_bytes([g, h]),
        })
    }

    /// The identifier of the query.
    pub fn id(self) -> u16 {
        self.id
    }

    /// QR: whether the message is a response.
    pub fn is_response(self) -> bool {
        self.flags & 0x8000 != 0
    }

    /// OPCODE, 0 to 15; [`OPCODE_QUERY`](super::OPCODE_QUERY) for an ordinary query.
    pub fn opcode(self) -> u8 {
        (self.flags >> 11 & 0xf) as u8
    }

    /// TC: whether the message was truncated.
    pub fn truncated(self) -> bool {
        self.flags & 0x0200 != 0
    }

    /// RCODE, 0 to 15, without the upper bits that an OPT record may carry (RFC 6891 section 6.1.3).
    pub fn rcode(self) -> u8 {
        (self.flags & 0xf) as u8
    }
}

/// The question section's only entry.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// QNAME.
    pub name: Qname<'a>,
    /// QTYPE, such as [`TYPE_A`].
    pub qtype: u16,
    /// QCLASS, such as [`CLASS_IN`].
    pub qclass: u16,
}

/// A message whose header and question have been read, but not yet its answer section.
///
/// The authority and additional sections, and trailing octets, are never read.
#[derive(Clone, Debug)]
pub struct Response<'a> {
    message: &'a [u8],
    header: Header,
    question: Question<'a>,
    /// Where the answer section starts.
    answers: usize,
}

impl<'a> Response<'a> {
    /// Reads header and question; [`addresses`](Self::addresses) reads the answer section.
    ///
    /// The caller must check whether the message is a response, and to which question.
    ///
    /// # Errors
    /// [`Error`] if either cannot be read, or if the number of questions is not one (RFC 9619).
    #[inline]
    pub fn parse(message: &'a [u8]) -> Result<Self, Error> {
        let header = Header::parse(message)?;
        if header.questions != 1 {
            return Err(Error::Questions(header.questions));
        }
        let name = of_question(message)?;
        let at = HEADER + name.len();
        let [a, b, c, d] = octets(message, at)?;
        Ok(Self {
            message,
            header,
            question: Question {
                name: Qname::new(name),
                qtype: u16::from_be_bytes([a, b]),
                qclass: u16::from_be_bytes([c, d]),
            },
            answers: at + 4,
        })
    }

    /// The question.
    pub fn question(&self) -> Question<'a> {
        self.question
    }

    /// See [`Header::id`].
    pub fn id(&self) -> u16 {
        self.header.id()
    }

    /// See [`Header::is_response`].
    pub fn is_response(&self) -> bool {
        self.header.is_response()
    }

    /// See [`Header::opcode`].
    pub fn opcode(&self) -> u8 {
        self.header.opcode()
    }

    /// See [`Header::rcode`].
    pub fn rcode(&self) -> u8 {
        self.header.rcode()
    }

    /// See [`Header::truncated`].
    pub fn truncated(&self) -> bool {
        self.header.truncated()
    }

    /// Passes `sink` each address that the CNAME chain reaches from the question's name, with the smallest TTL in
    /// seconds along the chain. A TTL is 0 to 2^31 - 1; a larger one counts as 0 (RFC 2181 section 8).
    ///
    /// - Only class IN counts: A records for an A question, AAAA records for an AAAA question. Other questions have no
    ///   addresses. Response code and flags are ignored.
    /// - Addresses are [canonical]: an IPv4-mapped AAAA record yields its IPv4 address. A repeated address is passed
    ///   twice. The order is that of the records.
    /// - The records may be in any order. An address of any name on the chain counts. Of several CNAME records of one
    ///   owner, which RFC 2181 section 10.1 forbids, the first counts. A loop ends at the first name that repeats.
    /// - DNAME records are ignored: the message also has the CNAME synthesised from each (RFC 6672 section 3.1).
    ///
    /// Each record is read twice. Its owner, unless it repeats the one before, is compared with at most
    /// `MAX_ALIASES + 1` names. [`MAX_STEPS`](super::MAX_STEPS) bounds the work for all owners together.
    ///
    /// # Errors
    /// The first [`Error`] of the answer section. `sink` has all addresses that can be read:
    ///
    /// - A record whose data do not fit its type (A, AAAA, CNAME) is left out, and so are all after one that is cut off.
    /// - A loop of CNAME records is an error, too.
    /// - With more than [`MAX_ALIASES`] CNAME records, `sink` gets nothing.
    pub fn addresses(&self, mut sink: impl FnMut(IpAddr, u32)) -> Result<(), Error> {
        let Question { qtype, qclass, .. } = self.question;
        if qclass != CLASS_IN || !matches!(qtype, TYPE_A | TYPE_AAAA) {
            return Ok(());
        }
        // It reads every record, so it has the first fault.
        let (chain, fault) = self.chain()?;
        // The result for the previous owner, since most records repeat it.
        let mut last: Option<(NameAt, Option<u32>)> = None;
        for record in self.records().flatten() {
            let Record {
                owner,
                ttl,
                at,
                data,
            } = record;
            let address = match data {
                Data::Ipv4 => Ipv4Addr::from(octets::<4>(self.message, at)?).into(),
                Data::Ipv6 => Ipv6Addr::from(octets::<16>(self.message, at)?).into(),
                Data::Alias(_) | Data::Other => continue,
            };
            let least = match last {
                Some((name, least)) if name.is_there(owner) => least,
                _ => self.least(&chain, owner)?,
            };
            last = Some((owner, least));
            if let Some(least) = least {
                sink(canonical(address), least.min(ttl));
            }
        }
        fault.map_or(Ok(()), Err)
    }

    /// The smallest TTL along the chain to a name; `None` if the chain does not reach it.
    fn least(&self, chain: &[Link], owner: NameAt) -> Result<Option<u32>, Error> {
        // Most addresses belong to the end of the chain.
        for link in chain.iter().rev() {
            if owner.is(link.name, self.message)? {
                return Ok(Some(link.ttl));
            }
        }
        Ok(None)
    }

    /// Reads every record once and follows the CNAME records from the question. Returns the question's name and each
    /// canonical name, once each, and the first fault.
    fn chain(&self) -> Result<(SmallVec<[Link; MAX_ALIASES + 1]>, Option<Error>), Error> {
        let mut aliases = SmallVec::<[Alias; MAX_ALIASES]>::new();
        let mut fault = None;
        for record in self.records() {
            let Record {
                owner,
                ttl,
                at,
                data,
            } = match record {
                Ok(record) => record,
                Err(error) => {
                    fault.get_or_insert(error);
                    continue;
                }
            };
            let Data::Alias(target) = data else {
                continue;
            };
            if aliases.len() == MAX_ALIASES {
                return Err(Error::Aliases { at });
            }
            aliases.push(Alias {
                owner,
                used: false,
                to: Link { name: target, ttl },
            });
        }
        let mut chain = SmallVec::new();
        let mut last = Link {
            name: self.name_at(),
            ttl: u32::MAX,
        };
        loop {
            let mut next = None;
            for alias in &mut aliases {
                if alias.owner.is(last.name, self.message)? {
                    next = Some(alias);
                    break;
                }
            }
            match next {
                // The chain already has this name.
                Some(alias) if alias.used => return Ok((chain, Some(Error::Loop))),
                Some(alias) => {
                    alias.used = true;
                    chain.push(last);
                    last = Link {
                        name: alias.to.name,
                        ttl: last.ttl.min(alias.to.ttl),
                    };
                }
                None => {
                    chain.push(last);
                    return Ok((chain, fault));
                }
            }
        }
    }

    fn name_at(&self) -> NameAt {
        NameAt::question(self.question.name.wire().len())
    }

    fn records(&self) -> Records<'a> {
        Records {
            message: self.message,
            names: Names::new(self.message, self.name_at()),
            at: self.answers,
            left: self.header.answers,
            qtype: self.question.qtype,
        }
    }
}

/// A name on the chain, and the smallest TTL up to it.
#[derive(Clone, Copy)]
struct Link {
    name: NameAt,
    ttl: u32,
}

/// A CNAME record.
struct Alias {
    owner: NameAt,
    used: bool,
    to: Link,
}

/// A resource record.
struct Record {
    owner: NameAt,
    ttl: u32,
    /// Where its data start.
    at: usize,
    data: Data,
}

/// The data of a record, for the record types used here.
enum Data {
    /// Four octets, for an A question.
    Ipv4,
    /// Sixteen octets, for an AAAA question.
    Ipv6,
    /// The canonical name.
    Alias(NameAt),
    /// Another type or class.
    Other,
}

/// The records of the answer section; ends after the first without a known end.
struct Records<'a> {
    message: &'a [u8],
    names: Names<'a>,
    /// Where the next record starts.
    at: usize,
    left: u16,
    qtype: u16,
}

impl Records<'_> {
    #[inline]
    fn read(&mut self) -> Result<Record, Error> {
        let (owner, fixed) = self.names.read(self.at)?;
        let [a, b, c, d, e, f, g, h, i, j] = octets(self.message, fixed)?;
        let rtype = u16::from_be_bytes([a, b]);
        let class = u16::from_be_bytes([c, d]);
        let ttl = u32::from_be_bytes([e, f, g, h]);
        let at = fixed + 10;
        let end = at + usize::from(u16::from_be_bytes([i, j]));
        if end > self.message.len() {
            return Err(Error::Truncated { at });
        }
        self.at = end;
        let data = if class == CLASS_IN {
            self.data(rtype, at)?
        } else {
            Data::Other
        };
        let ttl = if ttl > i32::MAX as u32 { 0 } else { ttl };
        Ok(Record {
            owner,
            ttl,
            at,
            data,
        })
    }

    /// The data of a record of class IN, from `at` to the next record.
    #[inline]
    fn data(&mut self, rtype: u16, at: usize) -> Result<Data, Error> {
        if rtype == self.qtype {
            match (rtype, self.at - at) {
                (TYPE_A, 4) => Ok(Data::Ipv4),
                (TYPE_AAAA, 16) => Ok(Data::Ipv6),
                _ => Err(Error::DataLength { at }),
            }
        } else if rtype == TYPE_CNAME {
            let (target, end) = self.names.read(at)?;
            if end != self.at {
                return Err(Error::DataLength { at });
            }
            Ok(Data::Alias(target))
        } else {
            Ok(Data::Other)
        }
    }
}

impl Iterator for Records<'_> {
    type Item = Result<Record, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let before = self.at;
        let record = self.read();
        if self.at == before {
            self.left = 0;
        }
        Some(record)
    }
}

#[cfg(test)]
mod tests;
