//! Random events, beside a model of what a policy has to have.
//!
//! The model knows each name's last readable status, and the names of the list. In the end the objects have exactly these
//! addresses. Before that a policy has at least these, whatever happens, and never one of an IPMap or a rule without
//! destinations.

use std::collections::BTreeSet;

use proptest::{collection::btree_set, prelude::*};
use serde_json::{Value, json};

use super::{Output, world::World};

const NAMES: [&str; 3] = ["one.example.com.", "two.example.com.", "*.example.org."];

/// Addresses from here on are only in IPMaps that a tenant wrote.
const FORGED: u8 = 200;

#[derive(Clone, Debug)]
enum Happening {
    /// The status of a name has these addresses.
    Answer(usize, BTreeSet<u8>),
    /// It gives a reason for having none.
    NoAddress(usize),
    /// The object of a name states nothing, is deleted, or has no rule.
    Silence(usize),
    Delete(usize),
    Refused(usize),
    Pass(u64),
    Restart,
    /// The watch of a kind lists everything again.
    List(Output),
    /// The store refuses every write of a kind, or none any more.
    Refuse(Option<Output>),
    OpenPolicy,
    EditMap(u8),
    /// These take addresses out of a policy, or keep the program from writing it.
    Domains(BTreeSet<usize>),
    Lead(bool),
    DeletePolicy,
}

fn happening() -> impl Strategy<Value = Happening> {
    use Happening::*;
    let name = 0..NAMES.len();
    let output = (0..Output::ALL.len()).prop_map(|it| Output::ALL[it]);
    prop_oneof![
        6 => (name.clone(), btree_set(1_u8..6, 1..4)).prop_map(|(name, set)| Answer(name, set)),
        1 => name.clone().prop_map(NoAddress),
        1 => name.clone().prop_map(Silence),
        1 => name.clone().prop_map(Delete),
        1 => name.clone().prop_map(Refused),
        3 => (0_u64..15).prop_map(Pass),
        1 => Just(Restart),
        1 => output.clone().prop_map(List),
        1 => proptest::option::of(output).prop_map(Refuse),
        1 => Just(OpenPolicy),
        1 => (FORGED..=255).prop_map(EditMap),
        2 => btree_set(name, 1..4).prop_map(Domains),
        1 => any::<bool>().prop_map(Lead),
        1 => Just(DeletePolicy),
    ]
}

/// The addresses of the names, and which of them are in the list.
#[derive(Default)]
struct Model {
    known: [BTreeSet<String>; NAMES.len()],
    listed: BTreeSet<usize>,
}

impl Model {
    /// All names are answered and listed, and the objects are written.
    fn begin() -> (Self, World) {
        let (mut model, mut world) = (Self::default(), World::new());
        for name in 0..NAMES.len() {
            model.happens(&mut world, Happening::Answer(name, [1].into()));
        }
        let all = (0..NAMES.len()).collect();
        model.happens(&mut world, Happening::Domains(all));
        world.pass(20);
        (model, world)
    }

    fn wanted(&self) -> BTreeSet<String> {
        let listed = self.listed.iter().flat_map(|name| &self.known[*name]);
        listed.cloned().collect()
    }

    /// Whether it is no fault if a policy lacks an address afterwards, or has a rule without destinations.
    fn excuses(happening: &Happening) -> bool {
        use Happening::{DeletePolicy, Domains, Lead, Refuse};
        matches!(
            happening,
            Domains(_) | Lead(_) | DeletePolicy | Refuse(Some(_))
        )
    }

    fn happens(&mut self, world: &mut World, happening: Happening) {
        match happening {
            Happening::Answer(name, set) => {
                let addresses: BTreeSet<_> = set.into_iter().map(ip).collect();
                let texts: Vec<_> = addresses.iter().map(String::as_str).collect();
                world.name(NAMES[name], &texts);
                self.known[name] = addresses;
            }
            Happening::NoAddress(name) => {
                world.put_name(NAMES[name], failing(NAMES[name], "NXDOMAIN", ""));
                self.known[name].clear();
            }
            Happening::Silence(name) => world.silence(NAMES[name]),
            Happening::Delete(name) => world.delete_name(NAMES[name]),
            Happening::Refused(name) => {
                world.put_name(NAMES[name], failing(NAMES[name], "AnswerRefused", ""))
            }
            Happening::Pass(seconds) => world.pass(seconds),
            Happening::Restart => world.restart(),
            Happening::List(output) => world.list(output),
            Happening::Refuse(output) => world.refuses = output.into_iter().collect(),
            Happening::OpenPolicy if world.policy("a").is_some() => world.open_policy("a"),
            Happening::OpenPolicy => {}
            Happening::EditMap(last) => world.edit_map("a", &format!("{}/32", ip(last))),
            Happening::Domains(listed) => {
                let names: Vec<_> = listed.iter().map(|name| NAMES[*name]).collect();
                world.resolver("a", json!({"domainList": names}));
                self.listed = listed;
            }
            Happening::Lead(is_leading) => {
                let now = world.now();
                world.planner.set_leading(is_leading, now);
            }
            Happening::DeletePolicy => world.delete_policy("a"),
        }
    }
}

fn ip(last: u8) -> String {
    format!("192.0.2.{last}")
}

pub(super) fn failing(name: &str, reason: &str, message: &str) -> Value {
    json!({"resolvedNames": [{
        "dnsName": name,
        "resolvedAddresses": [],
        "conditions": [{
            "type": "Degraded", "status": "True", "reason": reason, "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
    }]})
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn objects_have_in_the_end_what_the_statuses_say(
        happenings in proptest::collection::vec(happening(), 1..40),
    ) {
        let (mut model, mut world) = Model::begin();
        for happening in happenings {
            model.happens(&mut world, happening);
            world.run();
            for address in world.policy("a").unwrap_or_default() {
                let last: u8 = address.rsplit('.').next().unwrap().parse().unwrap();
                prop_assert!(last < FORGED, "{address} comes from an IPMap");
            }
        }
        // Nothing is in the way in the end, and all names are answered again.
        world.refuses.clear();
        world.restart();
        for (name, last) in (0..NAMES.len()).zip(10..) {
            model.happens(&mut world, Happening::Answer(name, [last].into()));
        }
        world.pass(60);
        prop_assert!(!world.is_open("a") && world.status("a").ready);
        let policy: BTreeSet<_> = world.policy("a").unwrap().into_iter().collect();
        prop_assert_eq!(&policy, &model.wanted());
        let domains = world.map("a").data.unwrap().domains;
        let in_map = domains.iter().flat_map(|it| &it.ips);
        let in_map = in_map.map(|ip| ip.trim_end_matches("/32").to_owned());
        prop_assert_eq!(in_map.collect::<BTreeSet<_>>(), policy);
        let writes = (world.writes, world.status_writes);
        world.pass(7_200);
        prop_assert_eq!((world.writes, world.status_writes), writes);
    }

    #[test]
    fn only_a_readable_status_takes_an_address_out(
        happenings in proptest::collection::vec(happening(), 1..40),
    ) {
        let (mut model, mut world) = Model::begin();
        for happening in happenings.into_iter().filter(|it| !Model::excuses(it)) {
            model.happens(&mut world, happening);
            world.pass(2);
            let policy: BTreeSet<_> = world.policy("a").unwrap().into_iter().collect();
            prop_assert!(!world.is_open("a"));
            prop_assert!(policy.is_superset(&model.wanted()), "{policy:?} {:?}", model.wanted());
        }
    }
}
