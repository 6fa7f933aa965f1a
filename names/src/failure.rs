//! Why a look-up has no answer.

use std::{borrow::Cow, io};

use proto::dns;

/// Why a query of one family has no answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Failure {
    /// A response code other than NOERROR; EDNS extends it to 12 bits (RFC 6891 section 6.1.3).
    #[error("the DNS server answered {}", rcode_text(*.0))]
    Rcode(u16),
    #[error("the DNS server did not answer in time")]
    Timeout,
    /// The system could not send the query to the server.
    #[error("the DNS server cannot be reached: {0}")]
    Network(io::ErrorKind),
    #[error("the DNS server's answer cannot be decoded")]
    BadReply,
    /// The list of DNS servers is empty.
    #[error("the collector has no DNS server to query")]
    NoServer,
}

fn rcode_text(rcode: u16) -> Cow<'static, str> {
    rcode_name(rcode).map_or_else(|| format!("RCODE{rcode}").into(), Cow::from)
}

/// The mnemonic of a response code to a standard query (IANA, "DNS RCODEs").
fn rcode_name(rcode: u16) -> Option<&'static str> {
    match u8::try_from(rcode).ok()? {
        dns::RCODE_FORMERR => Some("FORMERR"),
        dns::RCODE_SERVFAIL => Some("SERVFAIL"),
        dns::RCODE_NXDOMAIN => Some("NXDOMAIN"),
        dns::RCODE_NOTIMP => Some("NOTIMP"),
        dns::RCODE_REFUSED => Some("REFUSED"),
        _ => None,
    }
}

impl Failure {
    /// The name does not exist (RFC 2308 section 2.1).
    pub const NXDOMAIN: Self = Self::Rcode(dns::RCODE_NXDOMAIN as u16);

    /// The reason of a Kubernetes condition: `NXDOMAIN`, `SERVFAIL`, `RCODE16`, `Timeout`. The
    /// message is the [`Display`](std::fmt::Display) text.
    pub fn reason(self) -> Cow<'static, str> {
        match self {
            Self::Rcode(rcode) => rcode_text(rcode),
            other => other.label().into(),
        }
    }

    /// Every value of [`Failure::label`].
    pub const LABELS: &[&str] = &[
        "FORMERR",
        "SERVFAIL",
        "NXDOMAIN",
        "NOTIMP",
        "REFUSED",
        "OtherRcode",
        "Timeout",
        "Network",
        "BadReply",
        "NoServer",
    ];

    /// The metric label: one of a few values, also for response codes without a mnemonic here.
    pub fn label(self) -> &'static str {
        match self {
            Self::Rcode(rcode) => rcode_name(rcode).unwrap_or("OtherRcode"),
            Self::Timeout => "Timeout",
            Self::Network(_) => "Network",
            Self::BadReply => "BadReply",
            Self::NoServer => "NoServer",
        }
    }

    /// The precedence among several failures: an answer says more than silence. NXDOMAIN removes
    /// addresses, so it counts only if every server that answered says so.
    fn rank(self) -> u8 {
        match self {
            Self::NoServer => 0,
            Self::Timeout => 1,
            Self::Network(_) => 2,
            Self::NXDOMAIN => 3,
            Self::BadReply => 4,
            Self::Rcode(_) => 5,
        }
    }

    /// Whether a server gave another answer than the absence of addresses.
    pub fn contradicts_absence(self) -> bool {
        self.rank() > Self::NXDOMAIN.rank()
    }

    pub fn weightier(self, other: Self) -> Self {
        if other.rank() > self.rank() {
            other
        } else {
            self
        }
    }
}
