//! Test: the limit of names in all DNSResolvers of a namespace.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use proptest::{collection::vec, prelude::*};
use proto::api::DnsResolver;
use runtime::store::ObjectKey;
use serde_json::json;

use super::super::{
    RetentionPolicy, Wanted, rule_object::RuleObject, rule_set::Rules, validation::Fault,
};
use crate::namespaces::Namespaces;

/// Of a namespace in these tests.
const LIMIT: usize = 10;

fn rules() -> Rules {
    let (terms, namespaces) = (RetentionPolicy::default(), Namespaces::default());
    let mut rules = Rules::of::<DnsResolver>(terms, namespaces, Default::default());
    rules.counted.set_limit(LIMIT);
    rules
}

fn key(name: &str) -> ObjectKey {
    ObjectKey {
        namespace: "team".to_owned(),
        name: name.to_owned(),
    }
}

fn resolver_of(namespace: &str, name: &str, names: usize) -> DnsResolver {
    let list = (0..names).map(|i| format!("{name}{i}.example.com"));
    serde_json::from_value(json!({
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"domainList": Vec::from_iter(list)},
    }))
    .unwrap()
}

fn resolver(name: &str, names: usize) -> DnsResolver {
    resolver_of("team", name, names)
}

/// Answers the requests to read objects again from these.
fn read_again(rules: &mut Rules, stored: &BTreeMap<String, DnsResolver>) -> usize {
    let mut count = 0;
    while let Some((key, request)) = rules.counted.next_unread() {
        rules.read(&key, request, stored.get(&key.name).cloned());
        count += 1;
    }
    count
}

fn with_names(rules: &Rules) -> BTreeSet<&str> {
    let all = rules
        .all()
        .filter(|it: &&Arc<RuleObject>| !it.names.is_empty());
    all.map(|it| it.key.name.as_str()).collect()
}

#[test]
fn objects_beyond_the_limit_have_no_names_and_say_so() {
    let mut rules = rules();
    for name in ["a", "b", "c", "d"] {
        rules.apply(&resolver(name, 4));
    }
    rules.apply(&resolver_of("other", "z", 4));
    rules.apply(&resolver("e", 0));
    assert_eq!(with_names(&rules), ["a", "b", "z"].into());
    assert_eq!(rules.counted.left_out(), 2);
    let faults = |name: &str| -> Vec<_> {
        let faults = &rules.get(&key(name)).unwrap().faults;
        faults.iter().map(|(fault, it)| (fault, it.count)).collect()
    };
    assert_eq!(faults("b"), []);
    assert_eq!(faults("c"), [(Fault::ObjectLeftOut, 4)]);
    assert_eq!(faults("d"), [(Fault::ObjectLeftOut, 4)]);
    assert_eq!(faults("e"), []);
    let mut wanted = Wanted::default();
    rules.settle(&mut wanted);
    assert_eq!(wanted.names.len(), 12);
    assert_eq!(
        wanted
            .names_of_namespaces
            .values()
            .map(|it| it.len())
            .sum::<usize>(),
        12
    );
    assert!(Fault::ObjectLeftOut.meaning().len() < 900);
}

#[test]
fn names_without_effect_count_as_well() {
    let mut rules = rules();
    let mut bad = resolver("a", 8);
    bad.spec.domain_list = vec!["a_b.example.com".to_owned(); 8];
    rules.apply(&bad);
    rules.apply(&resolver("b", 4));
    assert_eq!((rules.refused, rules.counted.left_out()), (8, 1));
    // Its faults take no memory once it is left out.
    rules.apply(&resolver("0", 4));
    assert_eq!((rules.refused, rules.counted.left_out()), (0, 2));
}

#[test]
fn an_object_that_left_makes_room_and_the_next_one_is_read_again() {
    let mut rules = rules();
    let names = ["a", "b", "c", "d"];
    let mut stored: BTreeMap<_, _> = names
        .map(|name| (name.to_owned(), resolver(name, 5)))
        .into();
    for object in stored.values() {
        rules.apply(object);
    }
    assert_eq!(read_again(&mut rules, &stored), 0);
    stored.remove("a");
    rules.remove(&key("a"));
    assert_eq!(read_again(&mut rules, &stored), 2);
    assert_eq!(with_names(&rules), ["b", "c"].into());
    let mut wanted = Wanted::default();
    rules.settle(&mut wanted);
    assert_eq!(wanted.names.len(), 10);
    // An object that is still left out costs no request at each of its events.
    rules.apply(&stored["d"]);
    assert_eq!(read_again(&mut rules, &stored), 0);
    // A smaller one leaves room for it.
    let smaller = resolver("b", 0);
    rules.apply(&smaller);
    assert_eq!(read_again(&mut rules, &stored), 1);
    assert_eq!(with_names(&rules), ["c", "d"].into());
    assert_eq!(rules.counted.left_out(), 0);
}

#[test]
fn an_answer_that_may_be_older_than_an_event_is_not_used() {
    let mut rules = rules();
    rules.apply(&resolver("a", 6));
    let before = resolver("b", 6);
    rules.apply(&before);
    rules.remove(&key("a"));
    let (asked, request) = rules.counted.next_unread().unwrap();
    assert_eq!(asked, key("b"));
    rules.apply(&resolver("b", 1));
    rules.read(&asked, request, Some(before));
    assert_eq!(rules.get(&asked).unwrap().names.len(), 1);
}

#[test]
fn a_change_of_a_status_changes_nothing() {
    let mut rules = rules();
    let mut wanted = Wanted::default();
    let mut object = resolver("a", 5);
    rules.apply(&object);
    rules.settle(&mut wanted);
    let version = wanted.changes.version();
    let mut shown = Default::default();
    rules.show(&mut shown);
    object.metadata.resource_version = Some("7".to_owned());
    object.status = Some(Default::default());
    rules.apply(&object);
    assert!(!rules.has_changes());
    assert!(!rules.settle(&mut wanted));
    assert_eq!(wanted.changes.version(), version);
    // Another object of the same name gets the Events from now on.
    object.metadata.uid = Some("new".to_owned());
    rules.apply(&object);
    assert!(rules.has_changes());
}

proptest! {
    #[test]
    fn what_counts_depends_on_the_objects_and_not_on_the_order_of_events(
        steps in vec((0..6_usize, 0..8_usize, any::<bool>()), 0..60)
    ) {
        let mut rules = rules();
        let mut wanted = Wanted::default();
        let mut stored = BTreeMap::new();
        for (object, names, is_removed) in steps {
            let name = format!("r{object}");
            if is_removed {
                stored.remove(&name);
                rules.remove(&key(&name));
            } else {
                let object = resolver(&name, names);
                rules.apply(&object);
                stored.insert(name, object);
            }
            read_again(&mut rules, &stored);
            rules.settle(&mut wanted);
            let mut counted = BTreeSet::new();
            let (mut sum, mut is_full) = (0, false);
            for (name, object) in &stored {
                let size = object.spec.domain_list.len();
                is_full |= sum + size > LIMIT && size > 0;
                if !is_full && size > 0 {
                    sum += size;
                    counted.insert(name.as_str());
                }
            }
            prop_assert_eq!(with_names(&rules), counted);
            prop_assert_eq!(wanted.names.len(), sum);
            let left_out = rules.faulty().count();
            prop_assert_eq!(rules.counted.left_out(), left_out);
        }
    }
}
