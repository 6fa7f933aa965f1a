//! Why a look-up has no answer.

use std::{borrow::Cow, io};

use proto::dns;
use serde::{Serialize, Serializer};

/// Why a question of one family has no answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Failure {
    /// The server answered with another response code than NOERROR; EDNS makes it 12 bits (RFC 6891 section 6.1.3).
    #[error("the DNS server answered {}", rcode_text(*.0))]
    Rcode(u16),
    /// The server did not answer in time.
    #[error("the DNS server did not answer in time")]
    Timeout,
    /// The system could not bring the question to the server.
    #[error("the DNS server cannot be reached: {0}")]
    Network(io::ErrorKind),
    /// The answer cannot be read.
    #[error("the DNS server's answer cannot be read")]
    BadReply,
    /// The collector knows no DNS server to ask.
    #[error("there is no DNS server to ask")]
    NoServer,
}

fn rcode_text(rcode: u16) -> Cow<'static, str> {
    rcode_name(rcode).map_or_else(|| format!("RCODE{rcode}").into(), Cow::from)
}

/// The mnemonic of a code that a response to a standard query carries (IANA, "DNS RCODEs").
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

/// By its [`reason`](Failure::reason).
impl Serialize for Failure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.reason())
    }
}

impl Failure {
    /// The name does not exist (RFC 2308 section 2.1).
    pub const NXDOMAIN: Self = Self::Rcode(dns::RCODE_NXDOMAIN as u16);

    /// The reason of a Kubernetes condition: `NXDOMAIN`, `SERVFAIL`, `RCODE16`, `Timeout`. The message is the
    /// [`Display`](std::fmt::Display) text.
    pub fn reason(self) -> Cow<'static, str> {
        match self {
            Self::Rcode(rcode) => rcode_text(rcode),
            other => other.label().into(),
        }
    }

    /// Every word of [`Failure::label`].
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

    /// One word of a few, also for response codes that have no name here: fit for a metric label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Rcode(rcode) => rcode_name(rcode).unwrap_or("OtherRcode"),
            Self::Timeout => "Timeout",
            Self::Network(_) => "Network",
            Self::BadReply => "BadReply",
            Self::NoServer => "NoServer",
        }
    }

    /// Which of several failures counts: an answer says more than silence. NXDOMAIN lets addresses go, so it counts only if
    /// every server that answered says so.
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

    /// Whether a server answered, and not that there is no address.
    pub(crate) fn contradicts_absence(self) -> bool {
        self.rank() > Self::NXDOMAIN.rank()
    }

    pub(crate) fn weightier(self, other: Self) -> Self {
        if other.rank() > self.rank() {
            other
        } else {
            self
        }
    }
}
