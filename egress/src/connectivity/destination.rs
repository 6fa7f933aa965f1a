//! A name and a port to connect to.

use std::{fmt, str::FromStr};

use proto::api::DnsName;

/// The port without one.
const HTTPS: u16 = 443;

/// A name and a port: `example.com:443`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Destination {
    name: DnsName,
    port: u16,
}

impl Destination {
    /// The name without the dot at its end.
    pub(crate) fn name(&self) -> &str {
        self.name.as_str().trim_end_matches('.')
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The wildcard that has the name, without the dot at its end.
    pub(crate) fn wildcard(&self) -> Option<String> {
        let wildcard = self.name.wildcard()?;
        Some(wildcard.as_str().trim_end_matches('.').to_owned())
    }
}

impl FromStr for Destination {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, port) = match text.rsplit_once(':') {
            Some((name, port)) => (
                name,
                port.parse().map_err(|_| format!("`{port}` is no port"))?,
            ),
            None => (text, HTTPS),
        };
        let name = DnsName::parse(name).map_err(|error| error.to_string())?;
        if name.is_wildcard() {
            return Err("a pod cannot connect to a wildcard".to_owned());
        }
        Ok(Self { name, port })
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name(), self.port)
    }
}
