//! Which names objects and namespaces may have.

use super::ObjectKey;

/// Whether an object of this key can be.
pub(crate) fn check(key: &ObjectKey) -> Result<(), &'static str> {
    if !is_namespace(&key.namespace) {
        Err("the namespace is not a DNS label")
    } else if !is_object_name(&key.name) {
        Err("the name is not a DNS subdomain")
    } else {
        Ok(())
    }
}

/// A label as in RFC 1123, lower-case: the names of namespaces.
pub(crate) fn is_namespace(name: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    name.len() <= 63
        && name.bytes().all(inner)
        && !name.is_empty()
        && !name.starts_with('-')
        && !name.ends_with('-')
}

/// A subdomain as in RFC 1123, lower-case: the names of objects. Kubernetes limits the whole to 253 and not its labels.
pub(crate) fn is_object_name(name: &str) -> bool {
    let label = |label: &str| {
        let ends = |b: Option<u8>| b.is_some_and(|b| b != b'-');
        label
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && ends(label.bytes().next())
            && ends(label.bytes().next_back())
    };
    name.len() <= 253 && name.split('.').all(label)
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
}
