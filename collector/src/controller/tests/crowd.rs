//! Fairness of eviction under a full wildcard, in the controller.

use std::{collections::BTreeSet, net::IpAddr};

use crate::controller::tests::{World, answer, at, name, wanted};
use crate::{
    clients::tests::Pods,
    new_names::KnownNames,
    objects::{ManageObjects, Shared},
    rules::Source,
};

const WILD: &str = "*.s3.example.com";
const TEAMS: [&str; 3] = ["team-a", "team-b", "team-c"];
/// For each team.
const HONEST: usize = 100;
/// More clients than are kept for a name.
const ACCOMPLICES: [&str; 9] = ["b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7", "b8"];

/// Which clients query random labels.
#[derive(Clone, Copy, Debug)]
enum Attack {
    OneClient,
    TenOfOneNamespace,
    TwoWithTheSameLabels,
    TwoNamespacesWithTheSameLabels,
    WithoutRule,
    /// From an address that is no pod's.
    NoPod,
}

impl Attack {
    const ALL: [Self; 6] = [
        Self::OneClient,
        Self::TenOfOneNamespace,
        Self::TwoWithTheSameLabels,
        Self::TwoNamespacesWithTheSameLabels,
        Self::WithoutRule,
        Self::NoPod,
    ];

    /// The clients that query a label.
    fn askers(self, label: usize) -> Vec<String> {
        match self {
            Self::OneClient => vec!["bad/0".to_owned()],
            Self::TenOfOneNamespace => vec![format!("bad/{}", label % 10)],
            Self::TwoWithTheSameLabels => vec!["bad/0".to_owned(), "bad/1".to_owned()],
            Self::TwoNamespacesWithTheSameLabels => vec!["bad/0".to_owned(), "worse/0".to_owned()],
            Self::WithoutRule => vec![format!("none/{}", label % 10)],
            Self::NoPod => Vec::new(),
        }
    }
}

struct Cluster {
    world: World,
    pods: Pods,
    known: KnownNames,
    /// One of the namespaces denies the wildcard.
    is_denied: bool,
}

fn honest(team: &str, i: usize) -> String {
    format!("{team}-{i}.s3.example.com.")
}

impl Cluster {
    fn start() -> Self {
        let mut pods = Vec::new();
        let others = ["bad", "worse", "none"].into_iter().chain(ACCOMPLICES);
        for namespace in TEAMS.into_iter().chain(others) {
            pods.extend((0..HONEST).map(|i| format!("{namespace}/{i}")));
        }
        let pods: Vec<&str> = pods.iter().map(String::as_str).collect();
        let pods = Pods::of(&pods);
        let (world, known) = Self::collector(&pods);
        let mut cluster = Self {
            world,
            pods,
            known,
            is_denied: false,
        };
        cluster.want();
        cluster.world.settle();
        cluster
    }

    fn collector(pods: &Pods) -> (World, KnownNames) {
        let shared = Shared {
            clients: pods.clients.clone(),
            ..Shared::default()
        };
        let known = shared.known.clone();
        let world = World::with(ManageObjects::Auto, |config| config.shared = shared);
        (world, known)
    }

    fn want(&mut self) {
        let mut wanted = wanted(&[WILD], 0);
        let others = ["bad", "worse"].into_iter().chain(ACCOMPLICES);
        let namespaces: Vec<_> = TEAMS.into_iter().chain(others).collect();
        let numbers = self.pods.numbers(&namespaces);
        let in_use = wanted.name_mut(&name(WILD));
        in_use.retention.denied = self.is_denied;
        in_use.namespaces = numbers.into();
        self.world
            .controller
            .want(&wanted.into(), at(self.world.now));
    }

    /// Another collector leads, or this one restarted.
    fn restart(&mut self) {
        let (mut anew, known) = Self::collector(&self.pods);
        self.known = known;
        std::mem::swap(&mut anew.store, &mut self.world.store);
        anew.now = self.world.now;
        self.world = anew;
        self.want();
        let objects = self.world.store.values().cloned().collect();
        let synced = runtime::store::Event::Synced(objects);
        self.world
            .controller
            .event(Source::EgressFirewall, synced, at(self.world.now));
        self.world.settle();
    }

    fn ask(&mut self, asked: &str, addresses: &[IpAddr], client: IpAddr) {
        let mut observation = answer(asked, "1.1.1.1", self.world.now);
        observation.addresses = addresses.iter().map(|ip| (*ip, 7200)).collect();
        observation.client = Some(client);
        self.world.controller.observe(&observation);
    }

    fn ask_honestly(&mut self) {
        for team in TEAMS {
            for i in 0..HONEST {
                self.ask_as(team, i, &honest(team, i), 1);
            }
        }
    }

    /// A client of a team gets an answer with so many addresses.
    fn ask_as(&mut self, team: &str, i: usize, asked: &str, count: u8) {
        let client = self.pods.address(&format!("{team}/{i}"));
        let ip = |part| IpAddr::from([203, 0, part, u8::try_from(i).unwrap()]);
        let addresses: Vec<_> = (0..count).map(ip).collect();
        self.ask(asked, &addresses, client);
    }

    fn attack(&mut self, attack: Attack, label: usize, count: u16, is_v6: bool) {
        let addresses = (0..count).map(|i| {
            let label = u32::try_from(label).unwrap();
            match is_v6 {
                true => IpAddr::from([
                    0x2001,
                    0xdb8,
                    0,
                    0,
                    (label >> 16) as u16,
                    label as u16,
                    0,
                    i,
                ]),
                false => IpAddr::from((0x0b00_0000 + label * 16 + u32::from(i)).to_be_bytes()),
            }
        });
        let addresses: Vec<_> = addresses.collect();
        let asked = format!("x{label}.s3.example.com");
        let mut clients: Vec<_> = attack
            .askers(label)
            .iter()
            .map(|it| self.pods.address(it))
            .collect();
        if clients.is_empty() {
            clients.push([192, 0, 2, 1].into());
        }
        for client in clients {
            self.ask(&asked, &addresses, client);
        }
    }

    /// The names in the store.
    fn stored(&self) -> BTreeSet<&str> {
        let statuses = self.world.store.values().flat_map(|it| &it.status);
        let names = statuses.flat_map(|status| &status.resolved_names);
        names.map(|entry| entry.dns_name.as_str()).collect()
    }

    /// The number of honest names missing in the store.
    fn lost(&self) -> usize {
        let stored = self.stored();
        let all = TEAMS
            .into_iter()
            .flat_map(|team| (0..HONEST).map(move |i| honest(team, i)));
        all.filter(|it| !stored.contains(it.as_str())).count()
    }

    fn pass(&mut self, seconds: i64) {
        self.world.now += seconds * 1000;
        self.world.settle();
    }
}

fn flood(attack: Attack, count: u16, is_v6: bool, restarts: bool) {
    const LABELS: usize = 1500;
    let mut cluster = Cluster::start();
    cluster.ask_honestly();
    cluster.pass(2);
    assert_eq!(cluster.lost(), 0);
    if restarts {
        cluster.restart();
    }
    for label in 0..LABELS {
        cluster.attack(attack, label, count, is_v6);
        if label % 250 == 249 {
            cluster.pass(600);
            let lost = cluster.lost();
            assert_eq!(lost, 0, "{attack:?} {count} {is_v6} {restarts}");
        }
    }
    let kept = cluster.stored().len() - TEAMS.len() * HONEST;
    assert!(kept > 50, "{kept}: there is room for random labels, too");
    // The readers' index has these names.
    let stored = cluster.stored();
    assert_eq!(cluster.known.count(), stored.len());
    assert!(stored.iter().all(|it| cluster.known.contains(&name(it))));
    cluster.world.want(&[]);
    cluster.world.settle_deletions();
    assert_eq!(cluster.known.count(), 0);
}

#[test]
fn whoever_asks_for_random_labels_the_names_of_others_stay() {
    for attack in Attack::ALL {
        flood(attack, 8, false, false);
    }
}

#[test]
fn whatever_the_labels_answer_the_names_of_others_stay() {
    for (count, is_v6) in [(1, false), (2, true), (4, false), (16, true)] {
        flood(Attack::OneClient, count, is_v6, false);
    }
}

#[test]
fn names_known_only_from_a_status_survive_random_label_floods() {
    for attack in Attack::ALL {
        flood(attack, 1, true, true);
    }
}

/// The attack has filled the wildcard before the collector restarts. It continues while the other
/// clients query again.
fn flood_around_a_restart(attack: Attack, count: u16, is_v6: bool) -> Cluster {
    const LABELS: usize = 1500;
    // Their names are larger or smaller than the random ones.
    let honest_count = if count > 4 { 1 } else { 4 };
    let mut cluster = Cluster::start();
    let ask = |cluster: &mut Cluster, number: usize| {
        let (team, i) = (TEAMS[number % TEAMS.len()], number / TEAMS.len());
        cluster.ask_as(team, i, &honest(team, i), honest_count);
    };
    let everybody = TEAMS.len() * HONEST;
    (0..everybody).for_each(|number| ask(&mut cluster, number));
    for label in 0..LABELS {
        cluster.attack(attack, label, count, is_v6);
    }
    cluster.pass(2);
    assert_eq!(cluster.lost(), 0, "{attack:?} {count} {is_v6}, before");
    cluster.restart();
    for number in 0..LABELS {
        cluster.attack(attack, LABELS + number, count, is_v6);
        if number < everybody {
            ask(&mut cluster, number);
        }
        if number % 250 == 249 {
            cluster.pass(600);
            let lost = cluster.lost();
            assert_eq!(lost, 0, "{attack:?} {count} {is_v6}, {number} labels later");
        }
    }
    cluster
}

#[test]
fn an_attack_that_goes_on_after_a_restart_takes_no_names_of_others() {
    for attack in Attack::ALL {
        flood_around_a_restart(attack, 1, false);
    }
    for (count, is_v6) in [(2, true), (4, false), (8, true), (16, false)] {
        flood_around_a_restart(Attack::OneClient, count, is_v6);
    }
}

#[test]
fn after_a_restart_new_names_take_the_place_of_their_namespaces_own() {
    const NEW: usize = 20;
    let mut cluster = flood_around_a_restart(Attack::OneClient, 1, false);
    let new = |i: usize| format!("new-{i}.s3.example.com.");
    for label in 0..600 {
        cluster.attack(Attack::OneClient, 5000 + label, 1, false);
        if label < NEW {
            cluster.ask_as("team-a", label, &new(label), 1);
        }
        if label % 100 == 99 {
            cluster.pass(2);
        }
    }
    let stored = cluster.stored();
    let are_there = (0..NEW).filter(|i| stored.contains(new(*i).as_str()));
    let count = are_there.count();
    assert!(
        count >= NEW / 2,
        "{count}: it has as many as the attacker at least"
    );
    let is_lost = |team, i| !stored.contains(honest(team, i).as_str());
    let lost = TEAMS.map(|team| (0..HONEST).filter(|i| is_lost(team, *i)).count());
    assert!((1..=2 * NEW).contains(&lost[0]), "{lost:?}");
    assert_eq!(lost[1..], [0, 0]);
}

#[test]
fn names_that_no_client_asks_for_after_a_restart_give_way_to_new_ones() {
    let mut cluster = Cluster::start();
    cluster.ask_honestly();
    for label in 0..1500 {
        cluster.attack(Attack::OneClient, label, 1, false);
    }
    cluster.pass(2);
    cluster.restart();
    for _ in 0..19 {
        cluster.ask_honestly();
        cluster.pass(300);
    }
    let new = |i: usize| format!("new-{i}.s3.example.com.");
    for i in 0..50 {
        cluster.ask_as("worse", i, &new(i), 1);
    }
    cluster.pass(2);
    let stored = cluster.stored();
    assert!((0..50).all(|i| stored.contains(new(i).as_str())));
    assert_eq!(cluster.lost(), 0);
}

#[test]
fn a_deny_rule_keeps_no_address_out_of_another_namespaces_allow_rule() {
    let mut cluster = Cluster::start();
    cluster.is_denied = true;
    cluster.want();
    for label in 0..1400 {
        cluster.attack(Attack::OneClient, label, 1, false);
    }
    cluster.pass(2);
    cluster.ask_honestly();
    cluster.pass(2);
    assert_eq!(cluster.lost(), 0);
}

#[test]
fn names_wanted_by_many_namespaces_survive_random_label_floods() {
    let mut cluster = Cluster::start();
    let ask = |cluster: &mut Cluster, asked: &str, address: [u8; 4]| {
        for namespace in ACCOMPLICES {
            let client = cluster.pods.address(&format!("{namespace}/0"));
            cluster.ask(asked, &[address.into()], client);
        }
    };
    cluster.ask_honestly();
    cluster.pass(2);
    for team in TEAMS {
        for i in 0..HONEST {
            let address = [203, 0, 0, u8::try_from(i).unwrap()];
            ask(&mut cluster, &honest(team, i), address);
        }
    }
    for label in 0..1500_u16 {
        let [high, low] = label.to_be_bytes();
        let asked = format!("x{label}.s3.example.com");
        ask(&mut cluster, &asked, [11, 0, high, low]);
        if label % 250 == 249 {
            cluster.pass(2);
            assert_eq!(cluster.lost(), 0, "{label}");
        }
    }
}
