//! Random events. After each one no policy has an address of an IPMap, and in the end the objects say what the statuses
//! say. In the second test no address of a name is ever missing.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::world::World;

#[derive(Clone, Debug)]
enum Happening {
    /// The name has these addresses.
    Answer(usize, BTreeSet<u8>),
    NoAddress(usize),
    Silence(usize),
    Delete(usize),
    NoRule(usize),
    List(BTreeSet<usize>),
    Pass(u64),
    Restart,
    Lead(bool),
    OpenPolicy,
    DeletePolicy,
    EditMap(u8),
}

const NAMES: [&str; 3] = ["one.example.com.", "two.example.com.", "*.example.org."];

fn happening() -> impl Strategy<Value = Happening> {
    use Happening::*;
    let name = 0..NAMES.len();
    prop_oneof![
        6 => (name.clone(), proptest::collection::btree_set(1_u8..6, 1..4)).prop_map(|(name, set)| Answer(name, set)),
        1 => name.clone().prop_map(NoAddress),
        1 => name.clone().prop_map(Silence),
        1 => name.clone().prop_map(Delete),
        1 => name.clone().prop_map(NoRule),
        2 => proptest::collection::btree_set(name, 1..4).prop_map(List),
        3 => (0_u64..15).prop_map(Pass),
        1 => Just(Restart),
        1 => any::<bool>().prop_map(Lead),
        1 => Just(OpenPolicy),
        1 => Just(DeletePolicy),
        1 => (200_u8..210).prop_map(EditMap),
    ]
}

fn ip(last: u8) -> String {
    format!("192.0.2.{last}")
}

fn failing(name: &str, reason: &str) -> serde_json::Value {
    serde_json::json!({"resolvedNames": [{
        "dnsName": name,
        "resolvedAddresses": [],
        "conditions": [{
            "type": "Degraded", "status": "True", "reason": reason, "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
    }]})
}

/// The addresses of the names by the last statement about each.
#[derive(Default)]
struct Model {
    known: [BTreeSet<String>; NAMES.len()],
    listed: BTreeSet<usize>,
}

impl Model {
    fn list(&self) -> serde_json::Value {
        let names: Vec<_> = self.listed.iter().map(|name| NAMES[*name]).collect();
        serde_json::json!({"domainList": names})
    }

    fn wanted(&self) -> BTreeSet<String> {
        self.listed
            .iter()
            .flat_map(|name| &self.known[*name])
            .cloned()
            .collect()
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
                world.put_name(NAMES[name], failing(NAMES[name], "NXDOMAIN"));
                self.known[name].clear();
            }
            Happening::Silence(name) => world.silence(NAMES[name]),
            Happening::Delete(name) => world.delete_name(NAMES[name]),
            Happening::NoRule(name) => world.put_name(NAMES[name], failing(NAMES[name], "NoRule")),
            Happening::List(listed) => {
                // Addresses of a name that no list has are not kept.
                self.listed = listed;
                world.resolver("a", self.list());
            }
            Happening::Pass(seconds) => world.pass(seconds),
            Happening::Restart => {
                world.restart();
            }
            Happening::Lead(is_leading) => {
                let now = world.now();
                world.planner.set_leading(is_leading, now);
            }
            Happening::OpenPolicy if world.policy("a").is_some() => world.open_policy("a"),
            Happening::OpenPolicy => {}
            Happening::DeletePolicy => world.delete_policy("a"),
            Happening::EditMap(last) => world.edit_map("a", &format!("{}/32", ip(last))),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn objects_say_what_the_statuses_say(happenings in proptest::collection::vec(happening(), 1..40)) {
        let mut world = World::new();
        let mut model = Model { listed: [0, 1].into(), ..Model::default() };
        world.resolver("a", model.list());
        for happening in happenings {
            model.happens(&mut world, happening);
            world.run();
            for address in world.policy("a").unwrap_or_default() {
                let last: u8 = address.rsplit('.').next().unwrap().parse().unwrap();
                prop_assert!(last < 200, "{address} comes from an IPMap");
            }
        }
        // All names are answered again in the end.
        world.restart();
        for (name, last) in (0..NAMES.len()).zip(10_u8..) {
            model.happens(&mut world, Happening::Answer(name, [last].into()));
        }
        world.pass(60);
        prop_assert!(!world.is_open("a"));
        let policy: BTreeSet<_> = world.policy("a").unwrap().into_iter().collect();
        prop_assert_eq!(&policy, &model.wanted());
        let map = world.map("a").data.unwrap();
        let in_map: BTreeSet<_> = map.domains.iter().flat_map(|it| &it.ips).map(|it| it.trim_end_matches("/32").to_owned()).collect();
        prop_assert_eq!(in_map, policy);
        prop_assert!(world.status("a").ready);
        let writes = world.writes;
        world.pass(7_200);
        prop_assert_eq!(world.writes, writes);
    }

    /// A policy keeps the addresses of a name's last readable status through every change and restart.
    #[test]
    fn only_a_readable_status_takes_an_address_out(happenings in proptest::collection::vec(happening(), 1..40)) {
        let mut world = World::ready("a", serde_json::json!({"domainList": NAMES}), &["192.0.2.1"]);
        let mut model = Model { listed: (0..NAMES.len()).collect(), ..Model::default() };
        for name in 0..NAMES.len() {
            model.happens(&mut world, Happening::Answer(name, [1].into()));
        }
        world.pass(20);
        for happening in happenings {
            // These are of other accounts, and a list of fewer names is another matter.
            let is_foreign = matches!(happening, Happening::OpenPolicy | Happening::DeletePolicy | Happening::List(_));
            // A standby writes nothing, and a restart after it finds less than it knew.
            if is_foreign || matches!(happening, Happening::Lead(false)) {
                continue;
            }
            model.happens(&mut world, happening);
            world.pass(2);
            let policy: BTreeSet<_> = world.policy("a").unwrap().into_iter().collect();
            prop_assert!(policy.is_superset(&model.wanted()), "{policy:?} {:?}", model.wanted());
        }
    }
}
