//! The clients that queried a name under a wildcard. Eviction depends on them.

use std::net::IpAddr;

use smallvec::SmallVec;

use super::make_room;
use crate::clients::{Client, Clients, Namespace};

/// The most clients kept for each name.
const MOST: usize = 8;

/// Finds the namespaces of clients, and those with a rule for the name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Crowd<'a> {
    /// The pods and their namespaces; `None` if they are unknown.
    pub clients: Option<&'a Clients>,
    /// The namespaces with a rule, sorted.
    pub with_rule: &'a [Namespace],
    /// A policy that is a rule of each namespace. It pays for the pods of those without another.
    pub policy: Option<Namespace>,
}

impl Crowd<'_> {
    pub(crate) fn who(&self, address: IpAddr) -> Client {
        self.clients
            .map_or(Client::NoPod, |clients| clients.who(address))
    }

    pub(super) fn is_without_rule(&self, client: Client) -> bool {
        match client {
            _ if self.policy.is_some() => false,
            Client::PodOf(namespace) => self.with_rule.binary_search(&namespace).is_err(),
            Client::OtherPod => true,
            Client::NoPod => false,
        }
    }

    /// The client's namespace, if it is a pod's and has a rule.
    pub(crate) fn with_rule(&self, client: Client) -> Option<Namespace> {
        match client {
            Client::PodOf(namespace) if self.with_rule.binary_search(&namespace).is_ok() => {
                Some(namespace)
            }
            Client::PodOf(_) | Client::OtherPod => self.policy,
            Client::NoPod => None,
        }
    }

    /// The namespaces with a rule that these clients belong to, without duplicates. A name under a
    /// wildcard is charged to them only: other namespaces with the rule did not bring the name in.
    pub(crate) fn namespaces(&self, clients: &[IpAddr]) -> SmallVec<[Namespace; MOST]> {
        let mut namespaces = SmallVec::new();
        if let Some(known) = self.clients {
            known.each_who(clients, |client| namespaces.extend(self.with_rule(client)));
        }
        namespaces.sort_unstable();
        namespaces.dedup();
        namespaces
    }

    /// Whether there are clients, and all are pods of namespaces without a rule.
    pub(crate) fn are_without_rule(&self, clients: &[IpAddr]) -> bool {
        let mut all = clients.iter().map(|client| self.who(*client));
        !clients.is_empty() && all.all(|it| self.is_without_rule(it))
    }

    fn has_rule(&self, client: Client) -> bool {
        self.with_rule(client).is_some()
    }
}

/// Clients that queried a name: at most eight, of as many namespaces as possible.
#[derive(Clone, Debug, Default)]
pub(super) struct Askers(pub(super) Vec<IpAddr>);

impl Askers {
    /// The client that queried it first.
    pub(super) fn first(&self) -> Option<IpAddr> {
        self.0.first().copied()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = IpAddr> {
        self.0.iter().copied()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a client. A client of a namespace without a rule never displaces one whose namespace
    /// has a rule.
    pub(super) fn add(&mut self, client: IpAddr, crowd: Crowd<'_>) {
        if self.0.contains(&client) {
            return;
        }
        if self.0.len() < MOST {
            make_room(&mut self.0);
            self.0.push(client);
            return;
        }
        let new = crowd.who(client);
        let known: Vec<Client> = self.iter().map(|it| crowd.who(it)).collect();
        if known.contains(&new) {
            return;
        }
        let (is_new_with_rule, count) = (crowd.has_rule(new), |who: &Client| {
            known.iter().filter(|it| *it == who).count()
        });
        // Candidates for displacement, latest first: clients without a rule if the new one has a
        // rule, otherwise clients of the namespace with the most.
        let may_go = |who: &Client| match (is_new_with_rule, crowd.has_rule(*who)) {
            (true, false) => true,
            (false, true) => false,
            (true, true) | (false, false) => count(who) > 1,
        };
        let places = known.iter().enumerate();
        let goes = places
            .filter(|(_, who)| may_go(who))
            .max_by_key(|(place, who)| (!crowd.has_rule(**who), count(who), *place));
        if let Some((place, _)) = goes
            && let Some(asker) = self.0.get_mut(place)
        {
            *asker = client;
        }
    }

    pub(super) fn join(&mut self, other: &Self, crowd: Crowd<'_>) {
        for client in other.iter() {
            self.add(client, crowd);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::tests::Pods;

    fn added(pods: &Pods, asking: &[&str]) -> Vec<String> {
        let with_rule = pods.numbers(&["team", "two", "three"]);
        let crowd = Crowd {
            clients: Some(&pods.clients),
            with_rule: &with_rule,
            policy: None,
        };
        let mut askers = Askers::default();
        for pod in asking {
            askers.add(pods.address(pod), crowd);
        }
        askers.iter().map(|it| pods.name(it)).collect()
    }

    #[test]
    fn of_many_clients_one_per_namespace_with_rules_is_kept() {
        let many: Vec<_> = (0..9).map(|i| format!("team/p{i}")).collect();
        let others: Vec<_> = (0..9).map(|i| format!("none/p{i}")).collect();
        let names = ["two/p", "three/p", "none/x"].map(str::to_owned);
        let all = [&many[..], &others, &names].concat();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let pods = Pods::of(&all);
        let team: Vec<&str> = many.iter().map(String::as_str).collect();
        let none: Vec<&str> = others.iter().map(String::as_str).collect();
        assert_eq!(added(&pods, &team), team[..8]);
        let mixed = [&team[..], &["two/p", "none/x", "two/p", "three/p"]].concat();
        let kept = added(&pods, &mixed);
        let expected = [&team[..6], &["three/p", "two/p"]].concat();
        assert_eq!(kept, expected);
        // Clients of namespaces without a rule stay while there is room.
        let unruled = [&none[..], &["team/p0", "two/p", "three/p"]].concat();
        let kept = added(&pods, &unruled);
        assert_eq!(kept.len(), MOST);
        for pod in ["team/p0", "two/p", "three/p", "none/p0"] {
            assert!(kept.iter().any(|it| it == pod), "{pod} of {kept:?}");
        }
    }
}
