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
