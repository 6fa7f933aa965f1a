//! The whole way of an address, from the answer of CoreDNS to the first packet that passes.
//!
//! | leg | ends when |
//! |---|---|
//! | event | the collector has read the answer from the dnstap stream |
//! | status | the store acknowledged the status |
//! | object | the ovn-writer handled the object |
//! | committed | the northbound database acknowledged the row |
//! | packet | the first packet that passes was sent |
//!
//! The pod sends a packet a millisecond, from the answer on. Both programs tell the times of new addresses, in milliseconds.
//! Everything runs on one machine, so there is one clock.

mod events;
mod fixture;
mod legs;
mod packets;
mod table;
mod upstream;

use std::time::Duration;

use hickory_proto::rr::RecordType;
use tokio::{task::spawn_blocking, time::sleep};

use self::fixture::Fixture;
pub use self::{
    legs::{LEGS, Legs, Quantiles},
    table::markdown,
};
use crate::wait::eventually;

/// The TTL of names that do not expire meanwhile, in seconds.
const LONG_TTL: u32 = 3600;

/// The new names for each wildcard, of the names that it had before.
const GROWTH: usize = 4;

/// The names with a rule whose address changes.
const RULES: usize = 20;

/// The pause between two samples is up to this much longer than that of the plan.
const SPREAD: Duration = Duration::from_millis(100);

/// A change to follow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Change {
    /// A new name under a wildcard that has this many names.
    Wildcard(usize),
    /// A name with a rule gets another address.
    Rule,
}

/// A row of the table.
#[derive(Clone, Debug)]
pub struct Row {
    /// The change.
    pub change: Change,
    /// One for each change that was followed.
    pub samples: Vec<Legs>,
}

/// The rows to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The changes.
    pub changes: Vec<Change>,
    /// The samples of each row.
    pub samples: usize,
    /// How long nothing changes before a row: objects save bytes for ten seconds.
    pub rest: Duration,
    /// The least time between two samples: a large object is written less often.
    pub pause: Duration,
}

impl Plan {
    /// All names of the EgressFirewall.
    fn rules(&self) -> Vec<String> {
        let mut rules = Vec::new();
        for change in &self.changes {
            match change {
                Change::Wildcard(size) => {
                    let count = self.samples.div_ceil(grows_by(*size));
                    rules.extend((0..count).map(|number| wildcard(*size, number)));
                }
                Change::Rule => rules.extend((0..RULES).map(rule)),
            }
        }
        rules
    }
}

fn grows_by(size: usize) -> usize {
    (size / GROWTH).max(1)
}

fn wildcard(size: usize, number: usize) -> String {
    format!("*.w{size}-{number}.path.test.")
}

fn rule(number: usize) -> String {
    format!("r{number}.path.test.")
}

/// Measures. An error is the reason why this process may not create networks.
///
/// # Errors
/// See above.
///
/// # Panics
/// If a change has no effect.
pub async fn measure(plan: &Plan) -> Result<Vec<Row>, String> {
    let rules = plan.rules();
    let names: Vec<&str> = rules.iter().map(String::as_str).collect();
    let mut run = Run {
        fixture: Fixture::start(&names).await?,
        count: plan.samples,
        rest: plan.rest,
        pause: plan.pause,
    };
    run.all_rules_are_known(&rules).await;
    let mut rows = Vec::new();
    for change in &plan.changes {
        let row = Row {
            change: *change,
            samples: run.measure(*change).await,
        };
        print!("{}", table::line(&row));
        rows.push(row);
    }
    Ok(rows)
}

/// A fixture, and the number of samples.
struct Run {
    fixture: Fixture,
    count: usize,
    rest: Duration,
    pause: Duration,
}

impl Run {
    /// Waits until each name has a row, and those without a wildcard an address.
    async fn all_rules_are_known(&self, rules: &[String]) {
        let named = rules.iter().filter(|name| !name.starts_with('*')).count();
        eventually("rows of all names", async || {
            let rows = self.fixture.northbound.rows()?;
            let of_rules = rows.iter().filter(|it| {
                let name = it.dns_name().unwrap_or_default();
                name.ends_with(upstream::ZONE)
            });
            let filled = of_rules.filter(|it| !it.addresses.is_empty()).count();
            (filled == named)
                .then_some(())
                .ok_or_else(|| format!("{filled} of {named}"))
        })
        .await;
    }

    async fn measure(&mut self, change: Change) -> Vec<Legs> {
        if let Change::Wildcard(size) = change {
            self.fill(size).await;
        }
        // The last changes are over by then.
        sleep(self.rest).await;
        let samples = self.new_addresses(change).await;
        let (followed, count) = (samples.len(), self.count);
        println!("{change:?}: {followed} of {count} changes were followed");
        samples
    }

    /// The wildcard for a sample, and the number of the new name under it.
    fn place(size: usize, sample: usize) -> (String, usize) {
        let each = grows_by(size);
        (wildcard(size, sample / each), size + sample % each)
    }

    /// Fills the wildcards of this size.
    async fn fill(&mut self, size: usize) {
        let places = (0..self.count).step_by(grows_by(size));
        let wildcards: Vec<_> = places.map(|it| Self::place(size, it).0).collect();
        let mut names = Vec::new();
        for wildcard in &wildcards {
            names.extend((0..size).map(|n| under(wildcard, n)));
        }
        let mut wanted = Vec::new();
        for name in &names {
            let address = self.fixture.upstream.give_new_address(name, LONG_TTL);
            let answer = self.fixture.ask(name).await;
            assert_eq!(answer, [address], "{name}");
            wanted.push(address);
        }
        eventually("all names are in the sets of their wildcards", async || {
            let rows = self.fixture.northbound.rows()?;
            let of_size = |it: &&crate::northbound::Row| {
                wildcards.iter().any(|name| it.dns_name() == Some(name))
            };
            let found: usize = rows
                .iter()
                .filter(of_size)
                .map(|it| it.addresses.len())
                .sum();
            (found == wanted.len())
                .then_some(())
                .ok_or_else(|| format!("{found} of {}", wanted.len()))
        })
        .await;
    }

    /// Gives names new addresses, one after another.
    async fn new_addresses(&mut self, change: Change) -> Vec<Legs> {
        let mut samples = Vec::new();
        for sample in 0..self.count {
            sleep(random_between(self.pause, self.pause + SPREAD)).await;
            let name = match change {
                Change::Wildcard(size) => {
                    let (wildcard, number) = Self::place(size, sample);
                    under(&wildcard, number)
                }
                Change::Rule => rule(sample % RULES),
            };
            let address = self.fixture.upstream.give_new_address(&name, LONG_TTL);
            let (pod, dns) = (self.fixture.pod, self.fixture.dns_of_pod());
            let asked = name.clone();
            let packet = spawn_blocking(move || {
                // A busy machine may lose a datagram.
                pod.look_up(dns, &asked, RecordType::A).ok()?;
                Some(packets::first_that_passes(pod, address))
            });
            let Some(packet) = packet.await.expect("no panic") else {
                continue;
            };
            let packet = packet.expect("a packet passes");
            let sockets = self.fixture.inspect_sockets();
            let came = eventually(&format!("all times of {name} {address}"), async || {
                events::came(&sockets, &name, address).await
            })
            .await;
            samples.push(Legs::new(&came, packet));
        }
        samples
    }
}

fn under(wildcard: &str, number: usize) -> String {
    wildcard.replacen('*', &format!("n{number}"), 1)
}

fn random_between(from: Duration, to: Duration) -> Duration {
    let micros = fastrand::u64(from.as_micros() as u64..to.as_micros() as u64);
    Duration::from_micros(micros)
}
