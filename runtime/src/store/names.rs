//! The valid names of objects and namespaces.

use super::{Kind, ObjectKey};

/// Whether the key is valid for an object of this kind.
pub(crate) fn check_of<K: Kind>(key: &ObjectKey) -> Result<(), &'static str> {
    match (K::IS_NAMESPACED, key.namespace.is_empty()) {
        (true, _) => check(key),
        (false, true) if is_object_name(&key.name) => Ok(()),
        (false, true) => Err("the name is not a DNS subdomain"),
        (false, false) => Err("objects of this kind are in no namespace"),
    }
}

/// Whether the key is valid.
pub(crate) fn check(key: &ObjectKey) -> Result<(), &'static str> {
    if !is_namespace(&key.namespace) {
        Err("the namespace is not a DNS label")
    } else if !is_object_name(&key.name) {
        Err("the name is not a DNS subdomain")
    } else {
        Ok(())
    }
}

/// A lower-case label of RFC 1123: the names of namespaces.
pub(crate) fn is_namespace(name: &str) -> bool {
    name.len() <= 63 && is_label(name)
}

/// A lower-case subdomain of RFC 1123: the names of objects. Kubernetes limits the whole to 253, and not its labels.
pub(crate) fn is_object_name(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_label)
}

fn is_label(label: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    label.bytes().all(inner)
        && !label.is_empty()
        && !label.starts_with('-')
        && !label.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_kubernetes() {
        for name in [
            "a",
            "dns-5d8f",
            "www.example.com",
            "0.a-b",
            &"a".repeat(253),
        ] {
            assert!(is_object_name(name), "{name}");
        }
        for name in [
            "",
            "A",
            "a_b",
            "-a",
            "a-",
            "a..b",
            ".a",
            "a.",
            "a/b",
            "..",
            "ä",
            "a b",
            "a\n",
            &"a".repeat(254),
        ] {
            assert!(!is_object_name(name), "{name}");
        }
        assert!(is_namespace("ovn-kubernetes"));
        for name in ["", "a.b", "A", "-a", "a-", "lost+found", &"a".repeat(64)] {
            assert!(!is_namespace(name), "{name}");
        }
    }

    #[test]
    fn an_object_is_named_by_namespace_and_name() {
        let key: ObjectKey = "kube-system/kube-dns".parse().unwrap();
        assert_eq!((&*key.namespace, &*key.name), ("kube-system", "kube-dns"));
        assert_eq!(key.to_string(), "kube-system/kube-dns");
        for text in ["", "kube-dns", "/", "a/", "/b", "a/b/c", "A/b", "a/b=c"] {
            assert!(text.parse::<ObjectKey>().is_err(), "{text}");
        }
    }
}
