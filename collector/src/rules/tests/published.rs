//! Test: the rules as they are published change by change, compared with all EgressFirewalls
//! together.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::{Deref, DerefMut},
    sync::Arc,
};

use proptest::{collection::vec, prelude::*, sample::select};
use proto::api::{DnsName, RuleType};
use runtime::store::ObjectKey;

use super::{
    super::{Overview, RetentionPolicy, replace, rule_set::Rules},
    annotate, firewall, key,
};
use names::{Namespace, Namespaces};

/// The rules, and the published names.
#[derive(Default)]
pub(in crate::rules) struct Published {
    rules: Rules,
    overview: Overview,
    /// The state of a reader that applies the changes.
    read: Read,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Read {
    names: BTreeMap<DnsName, RetentionPolicy>,
    namespaces: BTreeMap<DnsName, Box<[Namespace]>>,
    of_namespaces: BTreeMap<Namespace, Arc<[DnsName]>>,
}

impl Deref for Published {
    type Target = Rules;

    fn deref(&self) -> &Rules {
        &self.rules
    }
}

impl DerefMut for Published {
    fn deref_mut(&mut self) -> &mut Rules {
        &mut self.rules
    }
}

impl Published {
    pub(in crate::rules) fn new(retention: RetentionPolicy) -> Self {
        Self {
            rules: Rules::new(retention, Namespaces::default()),
            ..Self::default()
        }
    }

    /// Publishes, and returns the names of existing EgressFirewalls.
    pub(in crate::rules) fn publish_changes(&mut self) -> BTreeMap<DnsName, RetentionPolicy> {
        self.publish();
        self.read.names.clone()
    }

    /// Those whose faults changed since the last call.
    pub(in crate::rules) fn take_changed(&mut self) -> BTreeSet<ObjectKey> {
        self.publish();
        self.rules.show(&mut self.overview)
    }

    fn publish(&mut self) {
        let changed = self.rules.take_changed_uses();
        for (name, in_use) in changed.names {
            let namespaces = in_use.as_ref().map(|it| Box::from(&*it.namespaces));
            replace(&mut self.read.namespaces, &name, namespaces);
            let retention = in_use.map(|it| it.retention);
            replace(&mut self.read.names, &name, retention);
        }
        for (namespace, names) in changed.namespaces {
            replace(&mut self.read.of_namespaces, &namespace, names);
        }
        assert_eq!(self.read, self.together());
    }

    /// The names of all EgressFirewalls together, computed from scratch.
    fn together(&self) -> Read {
        let mut all = Read::default();
        let mut of_namespaces: BTreeMap<Namespace, BTreeSet<DnsName>> = BTreeMap::new();
        for firewall in self.rules.all() {
            for (name, uses) in &firewall.names {
                let retention = firewall.terms_of(*uses);
                all.add(name, retention);
                let of_namespace = of_namespaces.entry(firewall.namespace).or_default();
                of_namespace.insert(name.clone());
                let namespaces = all.namespaces.entry(name.clone()).or_default();
                let mut with: BTreeSet<Namespace> = namespaces.iter().copied().collect();
                with.insert(firewall.namespace);
                *namespaces = with.into_iter().collect();
            }
        }
        let of_namespaces = of_namespaces.into_iter();
        all.of_namespaces = of_namespaces
            .map(|(namespace, names)| (namespace, names.into_iter().collect()))
            .collect();
        all
    }
}

impl Read {
    fn add(&mut self, name: &DnsName, retention: RetentionPolicy) {
        let joined = self
            .names
            .get(name)
            .map_or(retention, |it| it.join(retention));
        self.names.insert(name.clone(), joined);
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// A namespace has these names, the first of them in a Deny rule if so, with these annotations.
    Apply(
        usize,
        Vec<usize>,
        bool,
        &'static [(&'static str, &'static str)],
    ),
    Remove(usize),
    /// A new list has these namespaces as they were applied last.
    Reset(Vec<usize>),
}

const ANNOTATIONS: [&[(&str, &str)]; 4] = [
    &[],
    &[("retain", "168h"), ("grace", "0s")],
    &[("grace", "1m")],
    &[("min-ttl", "9m"), ("retain", "1m")],
];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..6_usize, vec(0..8_usize, 0..4), any::<bool>(), select(&ANNOTATIONS))
            .prop_map(|(of, names, denies, annotations)| Step::Apply(of, names, denies, annotations)),
        4 => (0..6_usize).prop_map(Step::Remove),
        1 => vec(0..6_usize, 0..6).prop_map(Step::Reset),
    ];
    vec(step, 0..60)
}

proptest! {
    #[test]
    fn changes_add_up_to_all_rules_together(steps in steps()) {
        let mut rules = Published::default();
        let mut last: BTreeMap<usize, _> = BTreeMap::new();
        let namespace = |i: usize| format!("n{i}");
        for step in steps {
            match step {
                Step::Apply(i, names, denies, annotations) => {
                    let names: Vec<_> = names.iter().map(|i| format!("n{i}.example.com")).collect();
                    let names: Vec<&str> = names.iter().map(String::as_str).collect();
                    let mut object = firewall(&namespace(i), &names);
                    annotate(&mut object, annotations);
                    if let Some(rule) = object.spec.egress.first_mut().filter(|_| denies) {
                        rule.rule_type = RuleType::Deny;
                    }
                    rules.apply(&object);
                    last.insert(i, object);
                }
                Step::Remove(i) => rules.remove(&key(&namespace(i))),
                Step::Reset(listed) => {
                    let objects: Vec<_> = listed.iter().filter_map(|i| last.get(i).cloned()).collect();
                    rules.reset(&objects, &BTreeSet::new());
                }
            }
            rules.publish();
            rules.take_changed();
            let faults: BTreeSet<&ObjectKey> = rules.overview.faults.keys().collect();
            prop_assert_eq!(faults, rules.faulty().collect());
        }
    }
}
