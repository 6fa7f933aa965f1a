//! Answers that the forwarder holds until the statuses have their addresses.

use std::{iter::once, mem};

use names::Observation;
use proto::api::DnsName;
use runtime::clock::Timestamp;
use tokio::sync::oneshot;

use super::publisher::Publisher;

/// An answer on its way to a pod. Dropping it releases the answer.
#[derive(Debug)]
pub struct HeldAnswer {
    pub observation: Observation,
    /// Gets the reason why the answer may go.
    pub settled: oneshot::Sender<Settled>,
}

/// Why an answer may go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Settled {
    /// The statuses had its addresses already, or will never have them: a guard or a cap refuses them.
    Known,
    /// The store acknowledged the statuses.
    Written,
}

impl Publisher {
    /// Applies an answer, and keeps it until the statuses have its addresses. A standby writes nothing, and releases it at once.
    pub fn hold(&mut self, answer: HeldAnswer, now: Timestamp) {
        if !self.names.leads() {
            return;
        }
        let HeldAnswer {
            mut observation,
            settled,
        } = answer;
        observation.at = observation.at.min(now);
        // The dnstap event of the same answer reports the addresses that are refused.
        observation.refuse(|ip| self.guards.admit(ip));
        self.apply_answer(&observation);
        if !self.lacks(&observation) {
            let _gone = settled.send(Settled::Known);
            return;
        }
        self.held.retain(|it| !it.settled.is_closed());
        self.held.push(HeldAnswer {
            observation,
            settled,
        });
    }

    /// The store has another status of this name: releases the answers whose addresses it has.
    pub(super) fn settle_held(&mut self, rule_name: &DnsName) {
        if self.held.is_empty() {
            return;
        }
        for it in mem::take(&mut self.held) {
            if rule_name.matches(&it.observation.name) && !self.lacks(&it.observation) {
                let _gone = it.settled.send(Settled::Written);
            } else {
                self.held.push(it);
            }
        }
    }

    /// Whether a status lacks an address that it is about to have.
    fn lacks(&self, answer: &Observation) -> bool {
        let wildcard = answer.name.wildcard();
        once(&answer.name).chain(&wildcard).any(|rule_name| {
            let entry = self.names.get(rule_name).filter(|it| it.is_used());
            let (Some(entry), Some(of_name)) = (entry, self.by_name.get(rule_name)) else {
                return false;
            };
            let mut addresses = answer.addresses.iter().map(|(ip, _)| *ip);
            addresses.any(|ip| {
                entry.list().has(&answer.name, &ip)
                    && of_name.objects.iter().any(|object| {
                        // The address set has it once, for all names under the wildcard.
                        !object.status.has(&answer.name, ip)
                            && object.status.addresses().all(|(_, it)| it != ip)
                    })
            })
        })
    }
}
