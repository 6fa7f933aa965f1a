//! The table of names beside a small model of its rules, through its interface alone.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::Duration,
};

use proptest::{prelude::*, sample::select};
use proto::{
    api::{DnsName, Family},
    timestamp::Timestamp,
};

use super::{admit, name};
use crate::{
    Failure, FamilyOutcome, Limits, LookupResult, Names, NamespaceCaps, Observation, Provenance,
    RuleUse, Stored,
};

const NAME: &str = "www.example.com";
const GRACE: u64 = 5;
const MAX_STALE: u64 = 3_600;

/// A failed look-up extends an address that has expired by this.
const LEAST_TTL: u64 = 5;

#[derive(Clone, Debug)]
enum Step {
    /// A client got an answer with these addresses and this TTL.
    Answer(Vec<u8>, u32),
    /// A look-up had these addresses, which are all that there are.
    Success(Vec<u8>, u32),
    Failure,
    /// A look-up found that there is no address.
    Absence,
    /// The clock jumped, as after a pause.
    Gap,
}

/// What the rules say about one address.
#[derive(Clone, Copy, Debug)]
struct Address {
    expiry: u64,
    /// Failed look-ups extended it to this time at most.
    extended: u64,
    /// After a gap it lives for its TTL again, to this time at most.
    held: u64,
    seen: u64,
    /// The last successful look-up without it.
    lacked: Option<u64>,
}

impl Address {
    /// It leaves when its TTL and grace are over, its retention is over, and a later look-up did not have it.
    fn must_stay(&self, now: u64, retain: u64) -> bool {
        let is_lacking = self.lacked.is_some_and(|at| at >= self.expiry);
        let is_over = self.expiry + GRACE <= now && self.seen + retain <= now;
        let is_stale = self.seen + MAX_STALE <= now;
        !((is_over && is_lacking) || is_stale)
    }

    fn must_be_gone(&self, now: u64, retain: u64) -> bool {
        let expiry = self.expiry.max(self.extended);
        let is_lacking = self.lacked.is_some_and(|at| at >= expiry);
        is_lacking && expiry.max(self.held) + GRACE < now && self.seen + retain < now
    }
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000) + Duration::from_secs(seconds)
}

fn ip(last: u8) -> IpAddr {
    Ipv4Addr::new(198, 51, 100, last).into()
}

/// A leader's table with the name in a rule, and the status that the store has.
struct Table {
    names: Names,
    name: DnsName,
    stored: Stored,
}

impl Table {
    fn new(limits: Limits, rule_name: &str) -> Self {
        let mut names = Names::new(limits.clone(), NamespaceCaps::default());
        let name = name(rule_name);
        names.set_leads(true);
        let rule_use = RuleUse {
            allowed: true,
            ..RuleUse::none(Arc::new(limits))
        };
        names.apply_rule(&name, Some(Arc::new(rule_use)), at(0));
        Self {
            names,
            name,
            stored: Stored::default(),
        }
    }

    /// What the owner of the table does after each event: it writes the status.
    fn write(&mut self, now: u64) {
        self.names.advance(true, at(now));
        let dirty = self.names.take_changes().dirty;
        if dirty.contains_key(&self.name) {
            self.names.enforce(&self.name, at(now));
            let stored = &self.stored;
            if let Some(update) = self.names.status_of(&self.name, stored, false, at(now)) {
                let (name, status) = (&self.name, update.status());
                self.stored =
                    self.names
                        .apply_stored(name, Some(&status), Some(stored), admit, at(now));
            }
        }
        self.names.set_wake(&self.name, None, at(now));
    }

    fn look_up(&mut self, asked: &DnsName, v4: FamilyOutcome, now: u64) {
        let v6 = match &v4 {
            FamilyOutcome::Failed(failure) => FamilyOutcome::Failed(*failure),
            _ => FamilyOutcome::NoData,
        };
        let result = LookupResult {
            name: asked.clone(),
            started: at(now),
            is_unresponsive: false,
            v4,
            v6,
        };
        self.names.apply_lookup(&result, at(now));
    }

    fn addresses(&self) -> BTreeSet<IpAddr> {
        self.stored.addresses().map(|(_, ip)| ip).collect()
    }
}

fn answer(asked: &DnsName, addresses: &[u8], ttl: u32, now: u64) -> Observation {
    Observation {
        name: asked.clone(),
        family: Family::V4,
        addresses: addresses.iter().map(|last| (ip(*last), ttl)).collect(),
        at: at(now),
        server_time: None,
        answered_at: at(now),
        client: Some(Ipv4Addr::LOCALHOST.into()),
        truncated: false,
        source: Provenance::STREAM,
    }
}

fn steps() -> impl Strategy<Value = Vec<(Step, u64)>> {
    let addresses = || prop::collection::vec(0_u8..4, 1..4);
    let ttl = || select(&[5_u32, 30, 300]);
    let step = prop_oneof![
        3 => (addresses(), ttl()).prop_map(|(addresses, ttl)| Step::Answer(addresses, ttl)),
        3 => (addresses(), ttl()).prop_map(|(addresses, ttl)| Step::Success(addresses, ttl)),
        2 => Just(Step::Failure),
        4 => Just(Step::Absence),
        1 => Just(Step::Gap),
    ];
    prop::collection::vec((step, select(&[1_u64, 4, 10, 31, 200, 4_000])), 1..40)
}

proptest! {
    #[test]
    fn address_leaves_when_its_rules_say_so(steps in steps(), retain in select(&[0_u64, 600])) {
        let limits = Limits {
            retain: Duration::from_secs(retain),
            max_stale: Duration::from_secs(MAX_STALE),
            ..Limits::default()
        };
        let mut table = Table::new(limits, NAME);
        let name = table.name.clone();
        let mut model: BTreeMap<u8, Address> = BTreeMap::new();
        let mut absences = Vec::new();
        let mut now = 0;
        for (step, wait) in steps {
            now += wait;
            // Before the event, as a timer would.
            table.write(now);
            let has = table.addresses();
            for (last, address) in &model {
                let is_there = has.contains(&ip(*last));
                prop_assert!(is_there || !address.must_stay(now, retain), "{last} at {now}: {address:?}");
                prop_assert!(!is_there || !address.must_be_gone(now, retain), "{last} at {now}: {address:?}");
            }
            model.retain(|last, _| has.contains(&ip(*last)));
            match &step {
                Step::Answer(addresses, ttl) => {
                    table.names.apply_answer(&answer(&name, addresses, *ttl, now));
                }
                Step::Success(addresses, ttl) => {
                    let addresses = answer(&name, addresses, *ttl, now).addresses;
                    let found = FamilyOutcome::Addresses { addresses, at: at(now), complete: true };
                    table.look_up(&name, found, now);
                }
                Step::Failure => {
                    let failed = FamilyOutcome::Failed(Failure::Timeout);
                    table.look_up(&name, failed, now);
                    model.values_mut().for_each(|address| address.extended = now + LEAST_TTL);
                }
                Step::Absence => {
                    table.look_up(&name, FamilyOutcome::NoData, now);
                    if !model.is_empty() {
                        absences.push(now);
                    }
                    model.values_mut().for_each(|address| address.extended = now + LEAST_TTL);
                    if absences.len() >= 5 && absences[0] + 60 <= now {
                        model.values_mut().for_each(|address| address.lacked = Some(now));
                    }
                }
                Step::Gap => {
                    table.names.on_clock_jump(at(now));
                    for address in model.values_mut() {
                        (address.lacked, address.held) = (None, now + 300);
                    }
                }
            }
            if !matches!(step, Step::Absence) {
                absences.clear();
            }
            if let Step::Answer(found, ttl) | Step::Success(found, ttl) = &step {
                for last in found {
                    let expiry = now + u64::from(*ttl);
                    let new = Address { expiry, extended: 0, held: 0, seen: now, lacked: None };
                    let known = model.entry(*last).or_insert(new);
                    *known = Address { expiry: expiry.max(known.expiry), held: known.held, ..new };
                }
                if matches!(step, Step::Success(..)) {
                    let lacking = model.iter_mut().filter(|(last, _)| !found.contains(last));
                    lacking.for_each(|(_, address)| address.lacked = Some(now));
                }
            }
            table.write(now);
            let has = table.addresses();
            for (last, address) in &model {
                let is_there = has.contains(&ip(*last));
                prop_assert!(is_there || !address.must_stay(now, retain), "{last} at {now}: {address:?}");
            }
        }
    }

    #[test]
    fn caps_hold_whatever_is_asked(
        asked in prop::collection::vec((0_u32..60, prop::collection::vec(0_u8..40, 1..12), 1_u8..4), 1..120)
    ) {
        let limits = Limits {
            addresses_per_name: 10,
            names_per_wildcard: 20,
            object_size: 150,
            ..Limits::default()
        };
        let mut table = Table::new(limits, "*.example.com");
        for (second, (label, addresses, client)) in (0..).zip(asked) {
            let name = name(&format!("n{label}.example.com"));
            let mut answer = answer(&name, &addresses, 300, second);
            answer.client = Some(Ipv4Addr::new(10, 0, 0, client).into());
            table.names.apply_answer(&answer);
            table.write(second);
            let status = table.stored.status();
            let names = status.resolved_names.len();
            let addresses = status.resolved_names.iter().map(|it| it.resolved_addresses.len());
            prop_assert!(names <= 20, "{names} names");
            prop_assert!(addresses.clone().all(|count| count <= 10));
            prop_assert!(3 * names + addresses.sum::<usize>() <= 150);
        }
    }
}
