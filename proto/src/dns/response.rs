//! A response: header, question, and the addresses that the answer section gives to the question.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{
    CLASS_IN, TYPE_A, TYPE_AAAA, TYPE_CNAME,
    name::Name,
    wire::{Error, HEADER, name_end, octets, same_name},
};
use crate::address::canonical;

/// How many CNAME records the answer section of a readable response may have; no resolver follows a longer chain.
pub const MAX_ALIASES: usize = 16;

/// What the first twelve octets of a message say (RFC 1035 section 4.1.1).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Header {
    id: u16,
    flags: u16,
    questions: u16,
    answers: u16,
}

impl Header {
    /// Reads the header alone: the cheapest way to find out that a message is of no interest.
    ///
    /// # Errors
    /// [`Error::Truncated`] if there are fewer than twelve octets.
    pub fn parse(message: &[u8]) -> Result<Self, Error> {
        let [a, b, c, d, e, f, g, h, ..] = octets::<HEADER>(message, 0)?;
        Ok(Self {
            id: u16::from_be_bytes([a, b]),
            flags: u16::from_be_bytes([c, d]),
            questions: u16::from_be_bytes([e, f]),
            answers: u16::from_be_bytes([g, h]),
        })
    }

    /// The identifier that the query bore.
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

    /// TC: whether something did not fit into the message.
    pub fn truncated(self) -> bool {
        self.flags & 0x0200 != 0
    }

    /// RCODE, 0 to 15, without the upper bits that an OPT record may carry (RFC 6891 section 6.1.3).
    pub fn rcode(self) -> u8 {
        (self.flags & 0xf) as u8
    }
}

/// The question section's only entry.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Question {
    /// QNAME, in lower case.
    pub name: Name,
    /// QTYPE, such as [`TYPE_A`].
    pub qtype: u16,
    /// QCLASS, such as [`CLASS_IN`].
    pub qclass: u16,
}

/// A message whose header and question are read, and whose answer section can be.
///
/// The authority and additional sections, and whatever stands behind them, are never looked at.
#[derive(Clone, Debug)]
pub struct Response<'a> {
    message: &'a [u8],
    header: Header,
    question: Question,
    /// Where the answer section starts.
    answers: usize,
}

impl<'a> Response<'a> {
    /// Reads header and question; the answer section is left for [`addresses`](Self::addresses).
    ///
    /// Whether the message is a response, and to what, is for the caller to ask.
    ///
    /// # Errors
    /// [`Error`] if either cannot be read, or if the number of questions is not one (RFC 9619).
    pub fn parse(message: &'a [u8]) -> Result<Self, Error> {
        let header = Header::parse(message)?;
        if header.questions != 1 {
            return Err(Error::Questions(header.questions));
        }
        let (name, at) = Name::of_question(message)?;
        let [a, b, c, d] = octets(message, at)?;
        Ok(Self {
            message,
            header,
            question: Question {
                name,
                qtype: u16::from_be_bytes([a, b]),
                qclass: u16::from_be_bytes([c, d]),
            },
            answers: at + 4,
        })
    }

    /// The question.
    pub fn question(&self) -> &Question {
        &self.question
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

    /// Gives `sink` each address that the answer section reaches from the question's name through its CNAME chain, with
    /// the smallest TTL in seconds on the way to it (0 to 2^31 - 1; more counts as 0, RFC 2181 section 8).
    ///
    /// - Only records of class IN count, and of those only A for an A question and AAAA for an AAAA question; other
    ///   questions have no addresses. Response code and flags play no part.
    /// - Addresses are [canonical]: an IPv4-mapped AAAA record yields its IPv4 address. One that stands there twice is
    ///   handed out twice. The order is that of the records.
    /// - The records may stand in any order. An address of any name on the chain counts. Of several CNAME records of one
    ///   owner, which RFC 2181 section 10.1 forbids, the first counts. A loop ends where it comes back to a name.
    /// - A DNAME plays no part: the CNAME that is synthesised from it stands beside it (RFC 6672 section 3.1).
    ///
    /// The answer section is read whole before the first call of `sink`, so with an error there is none.
    ///
    /// # Errors
    /// [`Error`] if a record of the answer section cannot be read, has data that do not fit its type (A, AAAA, CNAME), or
    /// if there are more than [`MAX_ALIASES`] CNAME records.
    pub fn addresses(&self, mut sink: impl FnMut(IpAddr, u32)) -> Result<(), Error> {
        let Question { qtype, qclass, .. } = self.question;
        if qclass != CLASS_IN || !matches!(qtype, TYPE_A | TYPE_AAAA) {
            return Ok(());
        }
        let chain = self.chain()?;
        for record in self.records() {
            let record = record?;
            let Some(address) = record.address(self.message, qtype)? else {
                continue;
            };
            if let Some(ttl) = chain.ttl(self.message, record.owner)? {
                sink(canonical(address), ttl.min(record.ttl));
            }
        }
        Ok(())
    }

    /// Reads every record once, and follows the CNAME records among them from the question.
    fn chain(&self) -> Result<Chain, Error> {
        let mut aliases = Aliases::default();
        for record in self.records() {
            let record = record?;
            if let Some(target) = record.alias(self.message)? {
                aliases.push(Alias {
                    owner: record.owner,
                    target,
                    ttl: record.ttl,
                })?;
            }
            record.address(self.message, self.question.qtype)?;
        }
        aliases.chain(self.message)
    }

    fn records(&self) -> Records<'a> {
        Records {
            message: self.message,
            at: self.answers,
            left: self.header.answers,
        }
    }
}

/// A resource record; positions are octets of the message.
struct Record {
    owner: usize,
    rtype: u16,
    class: u16,
    ttl: u32,
    data: usize,
    length: usize,
}

impl Record {
    /// The address, if this is a record of class IN and of the type asked for.
    fn address(&self, message: &[u8], qtype: u16) -> Result<Option<IpAddr>, Error> {
        if self.class != CLASS_IN || self.rtype != qtype {
            return Ok(None);
        }
        match (qtype, self.length) {
            (TYPE_A, 4) => Ok(Some(
                Ipv4Addr::from(octets::<4>(message, self.data)?).into(),
            )),
            (TYPE_AAAA, 16) => Ok(Some(
                Ipv6Addr::from(octets::<16>(message, self.data)?).into(),
            )),
            (TYPE_A | TYPE_AAAA, _) => Err(Error::DataLength { at: self.data }),
            _ => Ok(None),
        }
    }

    /// Where the canonical name stands, if this is a CNAME record of class IN.
    fn alias(&self, message: &[u8]) -> Result<Option<usize>, Error> {
        if self.class != CLASS_IN || self.rtype != TYPE_CNAME {
            return Ok(None);
        }
        if name_end(message, self.data)? == self.data + self.length {
            Ok(Some(self.data))
        } else {
            Err(Error::DataLength { at: self.data })
        }
    }
}

/// The records of the answer section; ends after the first that cannot be read.
struct Records<'a> {
    message: &'a [u8],
    at: usize,
    left: u16,
}

impl Records<'_> {
    fn read(&mut self) -> Result<Record, Error> {
        let owner = self.at;
        let fixed = name_end(self.message, owner)?;
        let [a, b, c, d, e, f, g, h, i, j] = octets(self.message, fixed)?;
        let ttl = u32::from_be_bytes([e, f, g, h]);
        let record = Record {
            owner,
            rtype: u16::from_be_bytes([a, b]),
            class: u16::from_be_bytes([c, d]),
            ttl: if ttl > i32::MAX as u32 { 0 } else { ttl },
            data: fixed + 10,
            length: usize::from(u16::from_be_bytes([i, j])),
        };
        self.at = record.data + record.length;
        if self.at > self.message.len() {
            return Err(Error::Truncated { at: record.data });
        }
        Ok(record)
    }
}

impl Iterator for Records<'_> {
    type Item = Result<Record, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let record = self.read();
        if record.is_err() {
            self.left = 0;
        }
        Some(record)
    }
}

/// A CNAME record: two names and a TTL.
#[derive(Clone, Copy, Default)]
struct Alias {
    owner: usize,
    target: usize,
    ttl: u32,
}

/// The CNAME records of the answer section in their order.
#[derive(Default)]
struct Aliases {
    all: [Alias; MAX_ALIASES],
    count: usize,
}

impl Aliases {
    fn push(&mut self, alias: Alias) -> Result<(), Error> {
        let slot = self
            .all
            .get_mut(self.count)
            .ok_or(Error::Aliases { at: alias.target })?;
        *slot = alias;
        self.count += 1;
        Ok(())
    }

    /// Follows the aliases from the question's name, each at most once.
    fn chain(&self, message: &[u8]) -> Result<Chain, Error> {
        let mut chain = Chain::default();
        let mut used = [false; MAX_ALIASES];
        let mut last = Link {
            name: HEADER,
            ttl: u32::MAX,
        };
        loop {
            let mut next = None;
            for (alias, used) in self.all.iter().zip(&mut used).take(self.count) {
                if same_name(message, alias.owner, last.name)? {
                    next = Some((alias, used));
                    break;
                }
            }
            match next {
                // A loop: the chain has this name already.
                Some((_, used)) if *used => return Ok(chain),
                Some((alias, used)) => {
                    *used = true;
                    chain.push(last);
                    last = Link {
                        name: alias.target,
                        ttl: last.ttl.min(alias.ttl),
                    };
                }
                None => {
                    chain.push(last);
                    return Ok(chain);
                }
            }
        }
    }
}

/// A name that the question leads to, and the smallest TTL on the way.
#[derive(Clone, Copy, Default)]
struct Link {
    name: usize,
    ttl: u32,
}

/// The question's name and its canonical names, each once.
#[derive(Default)]
struct Chain {
    links: [Link; MAX_ALIASES + 1],
    count: usize,
}

impl Chain {
    fn push(&mut self, link: Link) {
        if let Some(slot) = self.links.get_mut(self.count) {
            *slot = link;
            self.count += 1;
        }
    }

    /// The smallest TTL on the way to the name at `owner`; `None` if the chain does not reach it.
    fn ttl(&self, message: &[u8], owner: usize) -> Result<Option<u32>, Error> {
        // Most addresses belong to the end of the chain.
        for link in self.links.iter().take(self.count).rev() {
            if same_name(message, owner, link.name)? {
                return Ok(Some(link.ttl));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
