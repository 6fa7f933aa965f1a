//! The request of a `DNSResolver`: the names and the kind of object.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
};

use proto::api::{DnsName, DnsResolver, GenerateType, MAX_DOMAIN_LENGTH, MAX_DOMAINS, NameError};

use crate::{output::Output, ownership::uid_of};

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
    /// The value as it is written.
    pub kind_text: String,
    /// At most 64.
    pub labels: BTreeMap<String, String>,
    pub uid: String,
}

impl Request {
    /// Reads it from an object.
    pub fn of(resolver: &DnsResolver) -> Self {
        let mut list = resolver.spec.domain_list.iter();
        let (mut names, mut seen) = (Vec::new(), BTreeSet::new());
        while names.len() < MAX_DOMAINS
            && let Some(text) = list.next()
        {
            let cut = cut(text);
            if seen.insert(cut.clone()) {
                let name = DnsName::parse(text);
                names.push(Listed { text: cut, name });
            }
        }
        // The list may be very long, so the rest is counted alone.
        let too_many = list.count();
        let labels = resolver.metadata.labels.iter().flatten();
        let labels = labels.take(MOST_LABELS);
        Self {
            names,
            too_many,
            kind: resolver.spec.generate_type(),
            kind_text: resolver.spec.generate_type.clone(),
            labels: labels
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
            uid: uid_of(resolver),
        }
    }

    /// The names that an object can have.
    pub fn valid(&self) -> impl Iterator<Item = &DnsName> {
        self.names
            .iter()
            .filter_map(|listed| listed.name.as_ref().ok())
    }

    /// Whether an object of this kind is asked for. An unknown value asks for an IPMap alone, and removes nothing.
    pub fn wants(&self, output: Output) -> bool {
        match output {
            Output::Map => true,
            Output::Policy => self.kind == Some(GenerateType::NetworkPolicy),
            Output::Set => self.kind == Some(GenerateType::CalicoNetworkSet),
        }
    }

    /// The kinds of objects that are asked for.
    pub fn outputs(&self) -> impl Iterator<Item = Output> {
        Output::ALL.into_iter().filter(|output| self.wants(*output))
    }
}

/// Equal for objects with the same request. A status changes much more often.
pub(super) fn digest(resolver: &DnsResolver) -> u64 {
    let mut hasher = DefaultHasher::new();
    resolver.spec.domain_list.hash(&mut hasher);
    resolver.spec.generate_type.hash(&mut hasher);
    resolver.metadata.labels.hash(&mut hasher);
    uid_of(resolver).hash(&mut hasher);
    hasher.finish()
}

/// The text itself if a name can be so long. No name has the `…` of a text that is cut.
fn cut(text: &str) -> String {
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
    fn of_a_thousand_labels_64_are_kept() {
        let mut object = DnsResolver::new("a", DnsResolverSpec::default());
        let labels = (0..1_000).map(|i| (format!("label-{i}"), String::new()));
        object.metadata.labels = Some(labels.collect());
        assert_eq!(Request::of(&object).labels.len(), MOST_LABELS);
    }

    #[test]
    fn a_text_that_is_too_long_is_cut_and_no_name() {
        let label = "a".repeat(63);
        let longest = format!("{label}.{label}.{label}.{}.", "a".repeat(61));
        let more = (0..MAX_DOMAINS).map(|i| format!("n{i}.example.com"));
        let list = [longest.clone(), format!("{longest}a"), "ü".repeat(1 << 20)].into_iter();
        let spec = DnsResolverSpec {
            domain_list: list.chain(more).collect(),
            ..DnsResolverSpec::default()
        };
        let request = Request::of(&DnsResolver::new("a", spec));
        assert_eq!((request.names.len(), request.too_many), (MAX_DOMAINS, 3));
        assert_eq!(request.names[0].text, longest);
        assert_eq!(request.names[0].name, DnsName::parse(&longest));
        for listed in &request.names[1..3] {
            assert!(listed.name.is_err());
            assert!(listed.text.len() <= MAX_DOMAIN_LENGTH && listed.text.ends_with('…'));
        }
    }
}
