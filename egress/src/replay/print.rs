//! The output of a replay, line by line.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    io::{self, Write},
    net::IpAddr,
};

use collector::observation::Observation;
use k8s_openapi::jiff;
use proto::api::{DnsNameResolver, Family};
use runtime::{clock::Timestamp, inspect::client::Output};
use serde::Serialize;

pub(super) struct Printer<W> {
    format: Output,
    out: W,
}

/// A line of JSON.
#[derive(Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
enum Line<'a> {
    /// An answer for a wanted name.
    Observed {
        at: String,
        name: &'a str,
        r#type: &'static str,
        addresses: Vec<Answered>,
        #[serde(skip_serializing_if = "Option::is_none")]
        client: Option<IpAddr>,
    },
    /// An address was added to the status of an object, or removed.
    Changed {
        at: String,
        #[serde(flatten)]
        change: &'a AddressChange,
    },
    /// The totals.
    Summary {
        frames: u64,
        events: BTreeMap<&'static str, u64>,
        addresses_refused: BTreeMap<&'static str, u64>,
        names: Vec<FinalAddresses>,
    },
}

#[derive(Serialize)]
struct Answered {
    ip: IpAddr,
    ttl: u32,
}

/// The final status of an object.
#[derive(Serialize)]
struct FinalAddresses {
    rule: String,
    name: String,
    addresses: Vec<String>,
}

/// An address that was added or removed.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub(super) struct AddressChange {
    /// `spec.name` of the object.
    rule: String,
    name: String,
    address: String,
    added: bool,
}

/// The differences between two versions of an object.
pub(super) fn address_changes(
    before: Option<&DnsNameResolver>,
    after: &DnsNameResolver,
) -> Vec<AddressChange> {
    let before = before.map(entries).unwrap_or_default();
    let after_all = entries(after);
    let change = |added| {
        move |(name, address): &(&str, &str)| AddressChange {
            rule: after.spec.name.clone(),
            name: (*name).to_owned(),
            address: (*address).to_owned(),
            added,
        }
    };
    let came = after_all.difference(&before).map(change(true));
    let left = before.difference(&after_all).map(change(false));
    came.chain(left).collect()
}

/// The name and address of every entry in a status.
fn entries(object: &DnsNameResolver) -> BTreeSet<(&str, &str)> {
    let names = object.status.iter().flat_map(|it| &it.resolved_names);
    let entries = names.flat_map(|entry| {
        let addresses = entry.resolved_addresses.iter();
        addresses.map(|address| (&*entry.dns_name, &*address.ip))
    });
    entries.collect()
}

/// Whether the time has a date: up to the year 9999.
pub(super) fn is_of_a_calendar(at: Timestamp) -> bool {
    jiff::Timestamp::from_millisecond(at.as_millis()).is_ok()
}

fn text(at: Timestamp) -> String {
    let at = jiff::Timestamp::from_millisecond(at.as_millis()).unwrap_or_default();
    format!("{at:.3}")
}

impl<W: Write> Printer<W> {
    pub(super) fn new(format: Output, out: W) -> Self {
        Self { format, out }
    }

    pub(super) fn observed(&mut self, observation: &Observation) -> io::Result<()> {
        let addresses = observation.addresses.iter();
        self.line(&Line::Observed {
            at: text(observation.at),
            name: observation.name.as_str(),
            r#type: match observation.family {
                Family::V4 => "A",
                Family::V6 => "AAAA",
            },
            addresses: addresses.map(|&(ip, ttl)| Answered { ip, ttl }).collect(),
            client: observation.client,
        })
    }

    pub(super) fn changed(&mut self, at: Timestamp, change: &AddressChange) -> io::Result<()> {
        let at = text(at);
        self.line(&Line::Changed { at, change })
    }

    pub(super) fn summary<'a>(
        &mut self,
        frames: u64,
        events: BTreeMap<&'static str, u64>,
        addresses_refused: BTreeMap<&'static str, u64>,
        objects: impl Iterator<Item = &'a DnsNameResolver>,
    ) -> io::Result<()> {
        let mut names = Vec::new();
        for object in objects {
            let mut kept: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for (name, address) in entries(object) {
                kept.entry(name.to_owned())
                    .or_default()
                    .push(address.to_owned());
            }
            if kept.is_empty() {
                kept.insert(object.spec.name.clone(), Vec::new());
            }
            names.extend(kept.into_iter().map(|(name, addresses)| FinalAddresses {
                rule: object.spec.name.clone(),
                name,
                addresses,
            }));
        }
        names.sort_by(|one, other| (&one.rule, &one.name).cmp(&(&other.rule, &other.name)));
        self.line(&Line::Summary {
            frames,
            events,
            addresses_refused,
            names,
        })?;
        self.out.flush()
    }

    fn line(&mut self, line: &Line<'_>) -> io::Result<()> {
        match self.format {
            Output::Json => serde_json::to_writer(&mut self.out, line)?,
            Output::Text => write!(self.out, "{line}")?,
        }
        writeln!(self.out)
    }
}

/// The text format.
impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Observed {
                at,
                name,
                r#type,
                addresses,
                client,
            } => {
                write!(f, "{at} observed {name} {type}")?;
                for Answered { ip, ttl } in addresses {
                    write!(f, " {ip} ({ttl} s)")?;
                }
                client.map_or(Ok(()), |client| write!(f, ", asked by {client}"))
            }
            Self::Changed { at, change } => {
                let word = if change.added { "opened" } else { "closed" };
                write!(f, "{at} {word} {} for {}", change.address, change.rule)?;
                match change.name == change.rule {
                    true => Ok(()),
                    false => write!(f, ", as {}", change.name),
                }
            }
            Self::Summary {
                frames,
                events,
                addresses_refused,
                names,
            } => {
                writeln!(f, "\n{frames} events")?;
                for (outcome, count) in events {
                    writeln!(f, "{count:>10} {outcome}")?;
                }
                for (reason, count) in addresses_refused {
                    writeln!(f, "{count:>10} addresses refused: {reason}")?;
                }
                write!(f, "\nat the end")?;
                names.iter().try_for_each(|kept| write!(f, "\n  {kept}"))
            }
        }
    }
}

impl fmt::Display for FinalAddresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rule)?;
        if self.name != self.rule {
            write!(f, " {}", self.name)?;
        }
        match self.addresses.as_slice() {
            [] => f.write_str(": nothing"),
            some => write!(f, ": {}", some.join(" ")),
        }
    }
}
