//! Test: the limit of names that are read of all objects of a namespace.

use proto::api::DnsResolver;
use runtime::store::ObjectKey;
use serde_json::json;

use super::super::{RetentionPolicy, rule_set::Rules, validation::Fault};
use names::Namespaces;

fn key(name: &str) -> ObjectKey {
    ObjectKey {
        namespace: "team".to_owned(),
        name: name.to_owned(),
    }
}

fn resolver(namespace: &str, name: &str, names: usize) -> DnsResolver {
    let list = (0..names).map(|i| format!("{name}{i}.example.com"));
    serde_json::from_value(json!({
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"domainList": Vec::from_iter(list)},
    }))
    .unwrap()
}

#[test]
fn objects_beyond_the_names_of_a_namespace_are_left_out() {
    let (retention, namespaces) = (RetentionPolicy::default(), Namespaces::default());
    let mut rules = Rules::of::<DnsResolver>(retention, namespaces);
    for number in 0..40 {
        rules.apply(&resolver("team", &format!("r{number}-"), 500));
    }
    rules.apply(&resolver("team", "a", 400));
    rules.apply(&resolver("other", "z", 500));
    assert_eq!(rules.left_out, 1);
    let left_out = rules.get(&key("a")).unwrap();
    assert!(left_out.names.is_empty());
    let faults = left_out.faults.iter();
    let faults: Vec<_> = faults.map(|(fault, it)| (fault, it.count)).collect();
    assert_eq!(faults, [(Fault::ObjectLeftOut, 400)]);
    assert_eq!(rules.take_changed_uses().names.len(), 20_500);

    // There is room, and it changes.
    rules.apply(&resolver("team", "r7-", 100));
    assert_eq!(rules.left_out, 1);
    rules.apply(&resolver("team", "a", 400));
    assert_eq!(rules.left_out, 0);
    rules.apply(&resolver("team", "r7-", 500));
    assert_eq!(rules.left_out, 1);
    rules.remove(&key("a"));
    rules.apply(&resolver("team", "r7-", 500));
    assert_eq!(rules.left_out, 0);
    let names = rules.take_changed_uses().names.into_iter();
    let (of_a, others): (Vec<_>, Vec<_>) =
        names.partition(|(name, _)| name.as_str().starts_with('a'));
    assert_eq!((of_a.len(), others.len()), (400, 500));
    assert!(of_a.iter().all(|(_, in_use)| in_use.is_none()));
    assert!(others.iter().all(|(_, in_use)| in_use.is_some()));
}
