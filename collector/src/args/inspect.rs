//! The URL of the state.

use std::str::FromStr;

use anyhow::bail;
use runtime::listen::{ListenAddress, parse_local};

/// Where the collector shows its state, and whether also what it reads.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct InspectUrl {
    pub address: ListenAddress,
    /// `tap`: whether it serves captures and windows of answers.
    pub has_captures: bool,
}

impl FromStr for InspectUrl {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (address, query) = text.split_once('?').unwrap_or((text, ""));
        let parameters = query.split('&').filter(|parameter| !parameter.is_empty());
        let (captures, others): (Vec<&str>, Vec<&str>) =
            parameters.partition(|parameter| parameter.starts_with("tap="));
        let has_captures = match captures.as_slice() {
            [] | ["tap=true"] => true,
            ["tap=false"] => false,
            _ => bail!("`tap` is given once, as tap=true or tap=false"),
        };
        // The others are those of a unix socket.
        let address = match others.is_empty() {
            true => address.to_owned(),
            false => format!("{address}?{}", others.join("&")),
        };
        Ok(Self {
            address: parse_local(&address)?,
            has_captures,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taps_are_on_unless_the_url_says_otherwise() {
        for (text, address, has_captures) in [
            ("tcp://127.0.0.1:9092", "tcp://127.0.0.1:9092", true),
            (
                "tcp://127.0.0.1:9092?tap=true",
                "tcp://127.0.0.1:9092",
                true,
            ),
            ("tcp://[::1]:9092?tap=false", "tcp://[::1]:9092", false),
            ("unix:///x?tap=false&gid=7", "unix:///x?gid=7", false),
            ("unix:///x?mode=0660", "unix:///x?mode=0660", true),
        ] {
            let url: InspectUrl = text.parse().unwrap();
            assert_eq!(
                (url.address.to_string().as_str(), url.has_captures),
                (address, has_captures)
            );
        }
    }

    #[test]
    fn other_value_or_address_is_refused() {
        for text in [
            "tcp://127.0.0.1:9092?tap=no",
            "tcp://127.0.0.1:9092?tap=false&tap=true",
            "tcp://127.0.0.1:9092?mode=0660",
            "tcp://192.0.2.1:9092?tap=false",
        ] {
            assert!(text.parse::<InspectUrl>().is_err(), "{text}");
        }
    }
}
