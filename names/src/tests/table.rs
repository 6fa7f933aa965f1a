//! Changes of a status: one row for each sentence in the descriptions of a look-up, a failure, and
//! a removal.

use std::{net::IpAddr, time::Duration};

use proto::api::DnsNameResolverStatus;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::{
    FamilyResult, Limits, Stored,
    limits::STORED_SURPLUS,
    tests::{Known, T0, admit, answer, at, name, status, stored_address},
};

mod breakers;
mod failed;
mod removed;
mod succeeded;

pub(crate) const WWW: &str = "www.example.com.";
pub(crate) const WILD: &str = "*.example.com.";
pub(crate) const A: &str = "a.example.com.";
pub(crate) const B: &str = "b.example.com.";
pub(crate) const SERVFAIL: Failure = Failure::Rcode(2);

/// `(address, TTL in seconds)`.
pub(crate) type Answered = &'static [(&'static str, u32)];

/// `(name, failures, [(address, TTL, second)])`.
pub(crate) type Written = (&'static str, i32, &'static [(&'static str, i64, i64)]);

/// An event, with its second.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// A client got an answer.
    Seen(&'static str, Answered, f64),
    /// The same, with the address of the client.
    SeenBy(&'static str, &'static str, Answered, f64),
    /// A look-up had an answer, in the families of the addresses.
    Got(&'static str, Answered, f64),
    /// So many look-ups, the last at that second: fewer than five in twenty seconds, or five in a
    /// minute. Every server said that there is no IPv4 address.
    Absences(&'static str, u32, f64),
    Failed(&'static str, Failure, f64),
    /// A look-up had these results.
    LookedUp(&'static str, [FamilyResult; 2], f64),
    /// Another writer wrote this status.
    Status(&'static [Written], f64),
    /// Nothing could be resolved for a while, or the clock was set.
    Gap(f64),
    /// Addresses whose time is over leave.
    Expire(f64),
    /// The status is written, and must differ.
    Write(f64),
    /// The status must not differ.
    Quiet(f64),
    /// The second of the name's next look-up, if there is one.
    Next(&'static str, Option<f64>),
}

pub(crate) use Step::*;

/// A sentence of the description, with the steps that show it.
pub(crate) struct Row {
    says: &'static str,
    rule_name: &'static str,
    limits: fn(&mut Limits),
    steps: Vec<Step>,
    then: &'static [&'static str],
}

/// After these steps, of which the last is a write, the status is `then`. It has a line for each
/// entry: `NAME REASON FAILURES:` and `ADDRESS TTL@SECOND` of each address. Without a condition the
/// reason is `-`.
pub(crate) fn row(
    says: &'static str,
    rule_name: &'static str,
    steps: &[Step],
    then: &'static [&'static str],
) -> Row {
    Row {
        says,
        rule_name,
        limits: |_| {},
        steps: steps.to_vec(),
        then,
    }
}

impl Row {
    pub(crate) fn with(self, limits: fn(&mut Limits)) -> Self {
        Self { limits, ..self }
    }
}

/// Runs every row and reports all that fail.
pub(crate) fn check(rows: Vec<Row>) {
    let wrong: Vec<String> = rows.iter().filter_map(|row| run(row).err()).collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

fn run(row: &Row) -> Result<(), String> {
    let mut known = Known::new(row.rule_name);
    known.limits.lookups = true;
    (row.limits)(&mut known.limits);
    for step in &row.steps {
        take(&mut known, step).map_err(|wrong| format!("{}: {step:?}: {wrong}", row.says))?;
    }
    known.write(100_000.0);
    check_crd(&known.stored).map_err(|wrong| format!("{}: {wrong}", row.says))?;
    let found = lines(&known.stored);
    if found != row.then {
        return Err(format!("{}:\n   {found:#?}\nnot {:#?}", row.says, row.then));
    }
    Ok(())
}

fn take(known: &mut Known, step: &Step) -> Result<(), String> {
    let limits = known.limits.clone();
    match *step {
        Seen(asked, addresses, now) => {
            take(known, &SeenBy("10.0.0.1", asked, addresses, now))?;
        }
        SeenBy(client, asked, addresses, now) => {
            let mut seen = answer(asked, addresses, now);
            seen.client = client.parse().ok();
            known.hear(&seen);
        }
        Got(asked, addresses, now) => {
            known.observe(asked, addresses, now);
            let ips = addresses.iter().filter_map(|(ip, _)| ip.parse().ok());
            let (v4, v6): (Vec<IpAddr>, _) = ips.partition(IpAddr::is_ipv4);
            let results = [v4, v6].map(|ips| {
                if ips.is_empty() {
                    FamilyResult::Unknown
                } else {
                    FamilyResult::Complete
                }
            });
            known.looked_up(asked, results, now);
        }
        Absences(asked, count, now) => {
            for before in (0..count).rev() {
                let apart = if count < 5 { 5.0 } else { 15.0 };
                let then = now - apart * f64::from(before);
                let results = [FamilyResult::Absent, FamilyResult::Unknown];
                known.looked_up(asked, results, then);
            }
        }
        Failed(asked, failure, now) => {
            known.failed(asked, [failure; 2], now);
        }
        LookedUp(asked, results, now) => {
            known.looked_up(asked, results, now);
        }
        Status(entries, now) => {
            let entry = |(dns_name, failures, addresses): &Written| {
                let addresses = addresses.iter();
                let addresses =
                    addresses.map(|(ip, ttl, second)| stored_address(ip, *ttl, *second));
                json!({
                    "dnsName": dns_name,
                    "resolutionFailures": failures,
                    "resolvedAddresses": addresses.collect::<Value>(),
                })
            };
            let new = status(entries.iter().map(entry).collect());
            let before = Stored::new(&known.stored, &known.state);
            let stored = Stored::new(&new, &known.state);
            known
                .state
                .apply_stored(&stored, Some(&before), at(now), &known.limits, admit);
            known.enforce();
            known.stored = new;
        }
        Gap(now) => known.state.on_clock_jump(at(now), &limits),
        Expire(now) => drop(known.state.expire(at(now), &limits)),
        Write(now) => {
            if !known.write(now) {
                return Err("nothing is written".to_owned());
            }
        }
        Quiet(now) => {
            let before = lines(&known.stored);
            if known.write(now) {
                let after = lines(&known.stored);
                return Err(format!("{before:#?} becomes {after:#?}"));
            }
        }
        Next(asked, expected) => {
            let next = known.state.list().next_lookup(&name(asked), &limits);
            let next = next.map(|next| (next.as_millis() - T0) as f64 / 1000.0);
            if next != expected {
                return Err(format!("it is {next:?}"));
            }
        }
    }
    Ok(())
}

fn lines(status: &DnsNameResolverStatus) -> Vec<String> {
    let entry = |entry: &proto::api::ResolvedName| {
        let reason = entry.conditions.first().map_or("-", |it| &it.reason);
        let addresses = entry.resolved_addresses.iter().map(|address| {
            let second = address.last_lookup_time.0.as_second() - T0 / 1000;
            let ttl = address.ttl_seconds - STORED_SURPLUS.as_secs() as i32;
            format!(" {} {ttl}@{second}", address.ip)
        });
        let (dns_name, failures) = (&entry.dns_name, entry.resolution_failures);
        format!("{dns_name} {reason} {failures}:") + &addresses.collect::<String>()
    };
    status.resolved_names.iter().map(entry).collect()
}

/// Why the API server would refuse the whole status.
pub(crate) fn check_crd(status: &DnsNameResolverStatus) -> Result<(), String> {
    fn unique<'a>(what: &str, keys: impl Iterator<Item = &'a str>) -> Result<(), String> {
        let mut keys: Vec<_> = keys.collect();
        let all = keys.len();
        keys.sort();
        keys.dedup();
        (keys.len() == all)
            .then_some(())
            .ok_or_else(|| format!("{what} twice in {keys:?}"))
    }
    unique(
        "a name",
        status.resolved_names.iter().map(|it| &*it.dns_name),
    )?;
    for entry in &status.resolved_names {
        unique("a condition", entry.conditions.iter().map(|it| &*it.type_))?;
        unique(
            "an address",
            entry.resolved_addresses.iter().map(|it| &*it.ip),
        )?;
        name(&entry.dns_name);
        if entry.resolution_failures < 0 {
            return Err(format!("{} failures", entry.resolution_failures));
        }
        for address in &entry.resolved_addresses {
            let ip: IpAddr = address.ip.parse().map_err(|_| address.ip.clone())?;
            if ip.to_string() != address.ip || proto::address::canonical(ip) != ip {
                return Err(format!("{ip} is not canonical"));
            }
            super::admit(ip)?;
            if address.ttl_seconds < 1 {
                return Err(format!("a TTL of {}", address.ttl_seconds));
            }
        }
    }
    Ok(())
}

pub(crate) const HOUR: f64 = 3600.0;

pub(crate) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
