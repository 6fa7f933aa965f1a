//! Which names are in use, by the EgressFirewalls of all namespaces; and what is wrong with them, which their authors are
//! told.
//!
//! - `absence`: EgressFirewalls that went.
//! - `rules`: EgressFirewalls → the names in use, and on which terms.
//! - `list`: complete lists of them, made when some went.
//! - [`faults`]: what is wrong with an EgressFirewall.
//! - `speaker`: who says so, and how often.
//! - `uses`: which rules use a name, for who asks.
//! - [`rebinding`], [`left_out`]: what else somebody should know of, and `teller`, who says so.

mod absence;
pub mod faults;
pub mod left_out;
mod list;
pub mod rebinding;
mod rules;
mod speaker;
mod teller;
#[cfg(test)]
mod tests;
mod uses;

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use anyhow::bail;
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ObjectReference;
use proto::api::{DnsName, EgressFirewall};
use runtime::{
    admin::Gate,
    changes::send_if_changed,
    metrics::Metric,
    report::Reporter,
    store::{Event, ObjectKey, Scope, Store},
};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub use self::uses::{NameUses, RuleUse, UsesAsked};
use self::{
    faults::Faults, left_out::LeftOut, list::Lists, rebinding::Rebinding, rules::Rules,
    speaker::Speaker, teller::Teller,
};
use crate::{
    clients::{Clients, Namespace},
    state::Limits,
};

/// The metrics of rules.
pub const METRICS: &[Metric] = &[Metric::gauge(
    "collector_egress_firewall_names_refused",
    &[],
    "DNS names in EgressFirewalls that can be no DNSNameResolver",
)];

/// The names in use. Until the first list of EgressFirewalls is there, nothing is known of what is not.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Wanted {
    /// Every name that a rule names and that can be an object; and until that is believed, those of EgressFirewalls that went.
    pub names: BTreeMap<DnsName, Terms>,
    /// Of each of them the namespaces that have it in a rule, in order.
    pub namespaces: BTreeMap<DnsName, Box<[Namespace]>>,
    /// Of each namespace its names, in the order in which they are left out if it has too much.
    pub order: BTreeMap<Namespace, Arc<[DnsName]>>,
    /// Those of them that only EgressFirewalls have which went, with whether a complete list lacks all these.
    pub absent: BTreeMap<DnsName, bool>,
    /// Whether the EgressFirewalls of the store are known, so that what is not in `names` is not in use.
    pub in_sync: bool,
    /// There is an EgressFirewall that cannot be read and never could: its rules may have any name.
    pub unknown_rules: bool,
}

/// On which terms the addresses of a name are kept: of all EgressFirewalls that use it the largest.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Terms {
    /// `--grace`, or the annotation `…/grace`.
    pub grace: Duration,
    /// `--min-ttl`, or the annotation `…/min-ttl`.
    pub min_ttl: Duration,
    /// `--retain`, or the annotation `…/retain`.
    pub retain: Duration,
    /// It stands in an Allow rule.
    pub allowed: bool,
    /// It stands in a Deny rule.
    pub denied: bool,
}

/// What the flags say of terms, and how far annotations may go.
#[derive(Clone, Copy, Debug, Default)]
pub struct TermsRules {
    /// Where no annotation says anything.
    pub defaults: Terms,
    /// Annotations say no more than this.
    pub ceilings: Ceilings,
}

/// The largest values of annotations: what one namespace says of a name holds for all that use it.
#[derive(Clone, Copy, Debug)]
pub struct Ceilings {
    /// `--max-grace`.
    pub grace: Duration,
    /// `--max-min-ttl`.
    pub min_ttl: Duration,
    /// `--max-retain`.
    pub retain: Duration,
}

impl Default for Ceilings {
    fn default() -> Self {
        Self {
            grace: Duration::from_secs(3600),
            min_ttl: Duration::from_secs(600),
            retain: Duration::from_secs(168 * 3600),
        }
    }
}

impl Terms {
    /// The bounds for a name on these terms.
    pub fn limits(&self, base: &Limits) -> Limits {
        Limits {
            grace: self.grace,
            min_ttl: self.min_ttl,
            retain: self.retain,
            ..base.clone()
        }
    }

    fn join(&mut self, other: Self) {
        self.grace = self.grace.max(other.grace);
        self.min_ttl = self.min_ttl.max(other.min_ttl);
        self.retain = self.retain.max(other.retain);
        self.allowed |= other.allowed;
        self.denied |= other.denied;
    }
}

/// The names that these EgressFirewalls use.
pub fn names_in_use(firewalls: &[EgressFirewall], terms: TermsRules) -> BTreeMap<DnsName, Terms> {
    let mut rules = Rules::new(terms, Clients::default());
    rules.reset(firewalls, &BTreeSet::new(), Instant::now());
    rules.settle()
}

/// What there is to see of the EgressFirewalls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overview {
    /// Why the EgressFirewalls cannot be read now; what was known of them holds. `None` if they can.
    pub out_of_sync: Option<String>,
    /// How many there are, but for those that were never read.
    pub egress_firewalls: usize,
    /// Those that have faults.
    pub faults: BTreeMap<ObjectKey, Faults>,
    /// Those that do not decode and were never known.
    pub undecodable: BTreeSet<ObjectKey>,
    /// The namespaces that have rules by name.
    pub dns: BTreeMap<String, DnsRules>,
}

/// The rules by name of a namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct DnsRules {
    /// Its EgressFirewall.
    pub about: ObjectReference,
    /// How many dots the name with the fewest has, the one at its end not counted.
    pub fewest_dots: usize,
}

/// What the task publishes.
#[derive(Debug)]
pub struct Outputs {
    /// The names in use.
    pub wanted: watch::Sender<Wanted>,
    /// What there is to see.
    pub overview: watch::Sender<Arc<Overview>>,
    /// What the authors of EgressFirewalls are told.
    pub reporter: Reporter,
}

/// What else comes to the task.
#[derive(Debug)]
pub struct Inputs {
    /// What the authors of EgressFirewalls are told of.
    pub rebindings: mpsc::Receiver<Rebinding>,
    /// The same, of what limits left out.
    pub left_out: mpsc::Receiver<LeftOut>,
    /// Who wants to know which rules use a name.
    pub questions: mpsc::Receiver<UsesAsked>,
}

/// Follows the EgressFirewalls and publishes the names in use, until `shutdown`.
///
/// # Errors
/// The watch ended, which a store's never does.
pub async fn run<S: Store>(
    store: S,
    terms: TermsRules,
    clients: Clients,
    outputs: Outputs,
    inputs: Inputs,
    gate: Gate,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let Outputs {
        wanted,
        overview,
        reporter,
    } = outputs;
    let Inputs {
        mut rebindings,
        mut left_out,
        mut questions,
    } = inputs;
    let mut readiness = Readiness {
        gate,
        was_in_sync: false,
    };
    let mut rules = Rules::new(terms, clients);
    let mut teller = Teller::new(reporter.clone());
    let mut speaker = Speaker::new(reporter);
    // Those that cannot be read; and of them those of which nothing is known from before.
    let (mut unreadable, mut undecodable) = (BTreeSet::new(), BTreeSet::new());
    // Whether the rules are those of the store, but for EgressFirewalls that do not decode.
    let mut out_of_sync = Some("they were not listed yet".to_owned());
    let mut events = pin!(store.watch::<EgressFirewall>(Scope::All));
    let mut lists = Lists::new(store);
    loop {
        let is_in_sync = out_of_sync.is_none();
        let event = tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            () = speaker.speak(&rules, &undecodable) => continue,
            Some(rebinding) = rebindings.recv() => {
                rebinding::tell(&mut teller, &rules, &rebinding, Instant::now());
                continue;
            }
            Some(left_out) = left_out.recv() => {
                left_out::tell(&mut teller, &rules, &left_out, Instant::now());
                continue;
            }
            Some(asked) = questions.recv() => {
                let uses = rules.uses(&asked);
                // Who asked may be gone.
                let _gone = asked.answer.send(uses);
                continue;
            }
            (keys, began) = lists.next(rules.absences.next_list()), if is_in_sync => {
                rules.absences.list(&keys, began);
                None
            }
            event = events.next() => match event {
                Some(event) => Some(event),
                None => bail!("the watch of EgressFirewalls ended"),
            },
        };
        let now = Instant::now();
        match event {
            None => {}
            Some(Event::Synced(firewalls)) => {
                info!(
                    egress_firewalls = firewalls.len(),
                    "EgressFirewalls are in sync"
                );
                if !is_in_sync {
                    rules.absences.restart(now);
                }
                rules.reset(&firewalls, &unreadable, now);
                out_of_sync = None;
            }
            Some(Event::Applied(firewall)) => rules.apply(&firewall),
            Some(Event::Deleted(key)) => rules.remove(&key, now),
            Some(Event::Undecodable(keys)) => {
                rules.keep(&keys);
                unreadable = keys;
            }
            Some(Event::OutOfSync(reason)) => {
                warn!(%reason, "EgressFirewalls cannot be read; the names in use stay as they are");
                out_of_sync = Some(reason);
            }
        }
        let unknown = unreadable.iter().filter(|key| rules.get(key).is_none());
        let unknown: BTreeSet<ObjectKey> = unknown.cloned().collect();
        speaker.changed(unknown.difference(&undecodable).cloned());
        undecodable = unknown;
        readiness.show(out_of_sync.as_deref(), &undecodable);
        let mut names = rules.settle();
        speaker.changed(rules.take_changed());
        metrics::gauge!("collector_egress_firewall_names_refused").set(rules.refused() as f64);
        let faults = rules.faulty();
        overview.send_replace(Arc::new(Overview {
            out_of_sync: out_of_sync.clone(),
            egress_firewalls: rules.len(),
            faults: faults.map(|(key, f)| (key.clone(), f.clone())).collect(),
            undecodable: undecodable.clone(),
            dns: rules.dns(),
        }));
        rules.absences.update_limit(&names, now);
        let mut absent = BTreeMap::new();
        for (name, (terms, listed)) in rules.absences.names(&names) {
            absent.insert(name.clone(), listed);
            names.insert(name, terms);
        }
        let next = Wanted {
            names,
            namespaces: rules.namespaces(),
            order: rules.order(),
            absent,
            in_sync: out_of_sync.is_none(),
            unknown_rules: !undecodable.is_empty(),
        };
        send_if_changed(&wanted, next);
    }
}

/// Tells by a gate whether the rules are known. Any tenant can cause a state in which some are not, so once they were known this
/// ends no readiness.
struct Readiness {
    gate: Gate,
    was_in_sync: bool,
}

impl Readiness {
    fn show(&mut self, out_of_sync: Option<&str>, undecodable: &BTreeSet<ObjectKey>) {
        self.was_in_sync |= out_of_sync.is_none();
        match (out_of_sync, undecodable.first()) {
            (Some(reason), _) if !self.was_in_sync => self.gate.not_ready(reason),
            (Some(reason), _) => {
                let words = format!("they cannot be read, and what was known of them holds: {reason}");
                self.gate.impaired(words);
            }
            (None, Some(first)) => self.gate.impaired(format!(
                "{} cannot be read and never could, such as {first}: objects that no rule is known to use are kept for 10 min",
                undecodable.len()
            )),
            (None, None) => self.gate.ready(),
        }
    }
}
