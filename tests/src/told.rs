//! Checks that each address in an answer to a client is in the address sets in time and for long enough.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use hickory_proto::rr::RecordType;
use proto::api::Family;
use tokio::{
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval_at},
};

use crate::{dns::ask, monitor::Update, soak};

/// The longest allowed time from an answer to the address in the set of its rule, while a collector leads. It must stay
/// until its TTL is over.
pub const LATEST: Duration = Duration::from_millis(2_500);

/// An address in an answer to a client.
#[derive(Clone, Debug)]
pub struct Told {
    /// The name of the rule that covers the name.
    pub rule: &'static str,
    pub ip: IpAddr,
    /// When the client got the answer.
    pub at: Instant,
}

/// Clients that query IPv4 addresses at a steady rate, until they are dropped.
#[derive(Debug)]
pub struct Clients {
    told: Arc<Mutex<Vec<Told>>>,
    _tasks: JoinSet<()>,
}

impl Clients {
    /// Sends this many queries a second. `question` gives the rule and the name of each query from its number.
    pub fn start(
        server: SocketAddr,
        per_second: u32,
        question: impl Fn(u32) -> (&'static str, String) + Clone + Send + 'static,
    ) -> Self {
        let told = Arc::<Mutex<Vec<Told>>>::default();
        let mut tasks = JoinSet::new();
        // A client that waits for a lost datagram does not delay the others.
        let clients = per_second.min(16);
        let pause = Duration::from_secs(1) / per_second;
        for client in 0..clients {
            let (told, question) = (Arc::clone(&told), question.clone());
            tasks.spawn(async move {
                let mut pace = interval_at(Instant::now() + pause * client, pause * clients);
                pace.set_missed_tick_behavior(MissedTickBehavior::Skip);
                for number in (client..).step_by(clients as usize) {
                    pace.tick().await;
                    let (rule, name) = question(number);
                    let Ok(reply) = ask(server, &name, RecordType::A).await else {
                        continue;
                    };
                    let at = reply.at;
                    let addresses = reply.addresses().into_iter();
                    let addresses = addresses.map(|ip| Told { rule, ip, at });
                    let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
                    told.extend(addresses);
                }
            });
        }
        Self {
            told,
            _tasks: tasks,
        }
    }

    /// The answers so far, without the first `without` queries.
    pub fn told(&self, without: usize) -> Vec<Told> {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.get(without..).unwrap_or_default().to_vec()
    }
}

/// The periods in which an address was in a set.
type Stays = Vec<(Instant, Option<Instant>)>;

fn stays(updates: &[Update]) -> BTreeMap<String, BTreeMap<IpAddr, Stays>> {
    let mut sets: BTreeMap<String, BTreeMap<IpAddr, Stays>> = BTreeMap::new();
    for update in updates {
        for row in update.rows.values().flatten() {
            let Some(name) = row.dns_name().filter(|name| row.is_of(name, Family::V4)) else {
                continue;
            };
            let stays = sets.entry(name.to_owned()).or_default();
            let now = row.sorted_addresses();
            for ip in &now {
                let stays = stays.entry(*ip).or_default();
                if stays.last().is_none_or(|(_, left)| left.is_some()) {
                    stays.push((update.at, None));
                }
            }
            for (ip, stays) in stays {
                if let Some((_, left)) = stays.last_mut()
                    && now.binary_search(ip).is_err()
                {
                    left.get_or_insert(update.at);
                }
            }
        }
    }
    sets
}

/// Checks the sets against the answers of clients: each address is there `latest` after the answer, and until its TTL is
/// over.
/// The updates must reach to the end of the last TTL.
///
/// # Panics
/// If an address never came, or left before its TTL was over; in scripts/soak, if one came late.
pub fn judge(told: &[Told], updates: &[Update], ttl: Duration, latest: Duration) {
    let sets = stays(updates);
    let (mut delays, mut late, mut broken) = (Vec::new(), BTreeSet::new(), Vec::new());
    let began = told.iter().map(|told| told.at).min();
    for Told { rule, ip, at } in told {
        let since_start = at.duration_since(began.unwrap_or(*at));
        let stays = sets.get(*rule).and_then(|set| set.get(ip));
        let is_later = |left: &Option<Instant>| left.is_none_or(|left| left > *at);
        // The first period that has the answer's time, or follows it.
        let stay = stays.and_then(|stays| stays.iter().find(|(_, left)| is_later(left)));
        let Some((came, left)) = stay else {
            broken.push(format!("{since_start:?}: {ip} of {rule} never came"));
            continue;
        };
        let delay = came.saturating_duration_since(*at);
        delays.push(delay);
        if delay > latest && late.insert((rule, ip)) {
            println!("{since_start:?}: {ip} of {rule} came after {delay:?}");
        }
        let over = *at + ttl;
        if let Some(left) = left.filter(|left| *left < over) {
            let early = over - left;
            broken.push(format!(
                "{since_start:?}: {ip} of {rule} left {early:?} before its TTL was over"
            ));
        }
    }
    broken.truncate(20);
    assert!(broken.is_empty(), "{broken:#?}");
    let slowest = soak::print_delays("told to a client, until in its set", delays);
    soak::judge("the latest to come", slowest, latest);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::northbound::Row;

    const RULE: &str = "www.example.com.";

    fn update(at: Instant, addresses: &[&str]) -> Update {
        let ids = [
            ("k8s.ovn.org/owner-type", "EgressFirewallDNS"),
            ("k8s.ovn.org/name", RULE),
            ("ip-family", Family::V4.as_str()),
        ];
        let ids = ids.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let row = Row {
            uuid: "row".to_owned(),
            name: "a1".to_owned(),
            addresses: addresses.iter().map(|ip| (*ip).to_owned()).collect(),
            external_ids: ids.into(),
        };
        Update {
            at,
            comment: None,
            rows: [("row".to_owned(), Some(row))].into(),
            rules: BTreeMap::new(),
        }
    }

    fn hold(told_at: u64, came_and_left: &[(u64, bool)]) {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let updates = came_and_left.iter().map(|(seconds, is_there)| {
            let there: &[&str] = if *is_there { &["192.0.2.1"] } else { &[] };
            update(at(*seconds), there)
        });
        let told = Told {
            rule: RULE,
            ip: "192.0.2.1".parse().unwrap(),
            at: at(told_at),
        };
        judge(
            &[told],
            &updates.collect::<Vec<_>>(),
            Duration::from_secs(5),
            LATEST,
        );
    }

    #[test]
    fn an_address_that_stays_for_its_ttl_is_held() {
        hold(1, &[(0, true)]);
        hold(1, &[(2, true), (6, false)]);
        hold(10, &[(2, true), (6, false), (11, true), (15, false)]);
    }

    #[test]
    #[should_panic(expected = "never came")]
    fn an_address_that_never_comes_is_not_held() {
        hold(10, &[(2, true), (6, false)]);
    }

    #[test]
    #[should_panic(expected = "left 1s before its TTL was over")]
    fn an_address_that_leaves_early_is_not_held() {
        hold(1, &[(0, true), (5, false), (6, true)]);
    }
}
