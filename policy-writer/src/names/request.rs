//! The request of a `DNSResolver`: the names and the kind of object.

use std::collections::{BTreeMap, BTreeSet};

use proto::api::{DnsName, DnsResolver, GenerateType, MAX_DOMAIN_LENGTH, MAX_DOMAINS, NameError};
use runtime::store::ObjectKey;

/// The most labels of a `DNSResolver` that its objects get.
const MOST_LABELS: usize = 64;

/// A name of a `domainList`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Listed {
    /// As it is written. Of a text that is too long for a name, the beginning and `…`.
    pub text: String,
    /// The name, or why no DNSNameResolver can have it.
    pub name: Result<DnsName, NameError>,
}

/// The request of a `DNSResolver`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Request {
    /// In the order of the list, each text once.
    pub names: Vec<Listed>,
    /// How many texts stand beyond the limit of the list.
    pub too_many: usize,
    /// `None` for an unknown value.
    pub kind: Option<GenerateType>,
    /// The value as it is written, or its beginning.
    pub kind_text: String,
    /// At most 64.
    pub labels: BTreeMap<String, String>,
    /// `metadata.uid`. A file made by hand has none, so its place stands for it.
    pub uid: String,
}

impl Request {
    /// Reads it from an object.
    pub fn of(resolver: &DnsResolver) -> Self {
        let mut list = resolver.spec.domain_list.iter();
        let (mut names, mut seen) = (Vec::new(), BTreeSet::new());
        while names.len() < MAX_DOMAINS
            && let Some(written) = list.next()
        {
            let text = shortened(written);
            if seen.insert(text.clone()) {
                let name = DnsName::parse(written);
                names.push(Listed { text, name });
            }
        }
        let labels = resolver.metadata.labels.clone().unwrap_or_default();
        let uid = resolver.metadata.uid.clone();
        Self {
            names,
            // The list may be very long, so the rest is counted alone.
            too_many: list.count(),
            kind: resolver.spec.generate_type(),
            kind_text: shortened(&resolver.spec.generate_type),
            labels: labels.into_iter().take(MOST_LABELS).collect(),
            uid: uid.unwrap_or_else(|| ObjectKey::of(resolver).to_string()),
        }
    }

    /// The names that an object can have.
    pub fn valid(&self) -> BTreeSet<DnsName> {
        let names = self.names.iter();
        names.filter_map(|it| it.name.clone().ok()).collect()
    }
}

/// The text itself if a name can be so long. No name has the `…` of a text that is shortened.
fn shortened(text: &str) -> String {
    if text.len() <= MAX_DOMAIN_LENGTH {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(MAX_DOMAIN_LENGTH - '…'.len_utf8());
    format!("{}…", text.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use proto::api::DnsResolverSpec;

    use super::*;

    #[test]
    fn request_over_its_limits_is_shortened_and_counted() {
        let label = "a".repeat(63);
        let longest = format!("{label}.{label}.{label}.{}.", "a".repeat(61));
        let more = (0..MAX_DOMAINS).map(|i| format!("n{i}.example.com"));
        let list = [longest.clone(), format!("{longest}a"), "ü".repeat(1 << 20)].into_iter();
        let spec = DnsResolverSpec {
            domain_list: list.chain(more).collect(),
            ..DnsResolverSpec::default()
        };
        let mut object = DnsResolver::new("a", spec);
        let labels = (0..1_000).map(|i| (format!("label-{i}"), String::new()));
        object.metadata.labels = Some(labels.collect());
        let request = Request::of(&object);
        assert_eq!(request.labels.len(), MOST_LABELS);
        assert_eq!((request.names.len(), request.too_many), (MAX_DOMAINS, 3));
        assert_eq!(request.names[0].text, longest);
        assert_eq!(request.names[0].name, DnsName::parse(&longest));
        for listed in &request.names[1..3] {
            assert!(listed.name.is_err());
            assert!(listed.text.len() <= MAX_DOMAIN_LENGTH && listed.text.ends_with('…'));
        }
    }
}
