//! The index of wanted names: every event is matched against it.

use std::{
    hash::{BuildHasher, Hash},
    sync::Arc,
};

use arc_swap::ArcSwap;
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use proto::{
    api::DnsName,
    dns::{self, Qname},
};

/// A set of wanted names. A question is found by its hash, without allocation or copy. Clones share
/// structure, so adding a name copies a small part of the set only.
///
/// A client cannot make names collide, since the hash is seeded with a secret. A collision would
/// cost nothing but time: names that are found are compared.
#[derive(Clone, Debug, Default)]
pub struct NameIndex<S = RandomState> {
    hasher: S,
    exact: Names,
    /// Wildcards, keyed by the name behind `*.`: a wildcard matches exactly one more label.
    wildcard: Names,
}

/// The index that readers share. It is replaced as a whole and never changed, so readers need no
/// lock.
pub type SharedIndex = Arc<ArcSwap<NameIndex>>;

/// Why a name is wanted.
#[derive(Clone, Copy, Debug)]
pub enum Match<'a> {
    /// There is an object of this name.
    Exact(&'a DnsName),
    /// There is this wildcard one label above it. The name may still be one that no object can hold.
    Wildcard(&'a DnsName),
}

impl<S: BuildHasher> NameIndex<S> {
    /// Finds an object of this name, or a wildcard one label above it.
    #[inline]
    pub fn find<'a>(&self, name: impl Into<Qname<'a>>) -> Option<Match<'_>> {
        let name = name.into();
        let hashes = name.hashes(&self.hasher);
        if let Some(found) = self.exact.find(hashes.name, name, DnsName::as_str) {
            return Some(Match::Exact(found));
        }
        self.wildcard
            .find(hashes.parent, name.parent()?, behind_asterisk)
            .map(Match::Wildcard)
    }

    /// A hash that differs between versions of the index.
    #[inline]
    pub(crate) fn hash(&self, value: impl Hash) -> u64 {
        self.hasher.hash_one(value)
    }

    pub fn insert(&mut self, name: &DnsName) {
        let (names, hasher) = self.part_of_set(name);
        names.insert(name, |name| hash_of(name, hasher));
    }

    pub fn remove(&mut self, name: &DnsName) {
        let (names, hasher) = self.part_of_set(name);
        names.remove(name, hash_of(name, hasher));
    }

    /// The part of the set that holds a name, and the hasher.
    fn part_of_set(&mut self, name: &DnsName) -> (&mut Names, &S) {
        let names = match name.is_wildcard() {
            true => &mut self.wildcard,
            false => &mut self.exact,
        };
        (names, &self.hasher)
    }
}

/// The hash of a name, or of the name behind `*.`.
fn hash_of(name: &DnsName, hasher: &impl BuildHasher) -> u64 {
    let wire = dns::Name::from(name);
    let hashes = Qname::from(&wire).hashes(hasher);
    match name.is_wildcard() {
        true => hashes.parent,
        false => hashes.name,
    }
}

impl<'a, S: BuildHasher + Default> FromIterator<&'a DnsName> for NameIndex<S> {
    fn from_iter<I: IntoIterator<Item = &'a DnsName>>(names: I) -> Self {
        let mut index = Self::default();
        for name in names {
            index.insert(name);
        }
        index
    }
}

/// Names by their hashes, in parts that clones share until one of them changes.
#[derive(Clone, Debug)]
struct Names([Arc<Part>; PARTS]);

type Part = HashTable<DnsName>;

const PARTS: usize = 256;

impl Default for Names {
    fn default() -> Self {
        let empty = Arc::default();
        Self(std::array::from_fn(|_| Arc::clone(&empty)))
    }
}

impl Names {
    fn insert(&mut self, name: &DnsName, hash_of: impl Fn(&DnsName) -> u64) {
        let hash = hash_of(name);
        if let Some(part) = self.0.get_mut(part_of(hash)) {
            let entry = Arc::make_mut(part).entry(hash, |known| known == name, hash_of);
            entry.or_insert_with(|| name.clone());
        }
    }

    fn remove(&mut self, name: &DnsName, hash: u64) {
        if let Some(part) = self.0.get_mut(part_of(hash))
            && let Ok(entry) = Arc::make_mut(part).find_entry(hash, |known| known == name)
        {
            entry.remove();
        }
    }

    /// The entry with this name in its part.
    #[inline]
    fn find(
        &self,
        hash: u64,
        wanted: Qname<'_>,
        part: impl Fn(&DnsName) -> &str,
    ) -> Option<&DnsName> {
        let is_same = |known: &DnsName| wanted.is_plain(part(known));
        self.part(hash)?.find(hash, is_same)
    }

    #[inline]
    fn part(&self, hash: u64) -> Option<&Part> {
        self.0.get(part_of(hash)).map(|part| &**part)
    }
}

/// Uses bits of the hash that the tables themselves do not use.
#[inline]
fn part_of(hash: u64) -> usize {
    (hash >> 40) as usize % PARTS
}

fn behind_asterisk(wildcard: &DnsName) -> &str {
    wildcard.as_str().strip_prefix("*.").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::hash::Hasher;

    use super::*;

    #[test]
    fn name_wants_itself_and_wildcard_exactly_one_label_more() {
        let names = ["www.example.org", "*.example.com"].map(|it| DnsName::parse(it).unwrap());
        let index: NameIndex = names.iter().collect();
        let wants = |asked: &str| index.find(&dns::Name::from_text(asked).unwrap()).is_some();
        for (asked, is_wanted) in [
            ("WWW.Example.org.", true),
            ("example.org.", false),
            ("a.www.example.org.", false),
            ("ww.wexample.org.", false),
            ("a.example.com.", true),
            ("a_b.example.com.", true),
            ("*.example.com.", true),
            ("a.b.example.com.", false),
            ("example.com.", false),
            ("com.", false),
            (".", false),
        ] {
            assert_eq!(wants(asked), is_wanted, "{asked}");
        }
        // A dot inside a label is not a label boundary.
        let asked = dns::Name::from_wire(b"\x03www\x0bexample.org\0").unwrap();
        assert!(index.find(&asked).is_none());
        let asked = dns::Name::from_wire(b"\x03a.b\x07example\x03com\0").unwrap();
        assert!(index.find(&asked).is_some());
    }

    #[test]
    fn version_of_the_index_is_not_changed_by_later_ones() {
        let name = |i: usize| DnsName::parse(&format!("n{i}.example.com")).unwrap();
        let has = |index: &NameIndex, i| index.find(&dns::Name::from(&name(i))).is_some();
        let mut index = NameIndex::default();
        let mut versions = vec![index.clone()];
        for i in 0..200 {
            index.insert(&name(i));
            versions.push(index.clone());
        }
        for i in 0..200 {
            index.remove(&name(i));
            versions.push(index.clone());
        }
        for (at, version) in versions.iter().enumerate() {
            for i in 0..200 {
                assert_eq!(has(version, i), (i + 1..=i + 200).contains(&at), "{at} {i}");
            }
        }
    }

    /// A hasher that gives all names the same hash.
    #[derive(Default)]
    struct One;

    impl BuildHasher for One {
        type Hasher = Self;

        fn build_hasher(&self) -> Self {
            Self
        }
    }

    impl Hasher for One {
        fn write(&mut self, _octets: &[u8]) {}

        fn finish(&self) -> u64 {
            u64::MAX
        }
    }

    #[test]
    fn names_whose_hashes_collide_are_told_apart() {
        let names: Vec<_> = [
            "a.example.com",
            "b.example.com",
            "*.c.com",
            "*.d.com",
            "b.example.com",
        ]
        .iter()
        .map(|name| DnsName::parse(name).unwrap())
        .collect();
        let mut index: NameIndex<One> = names.iter().collect();
        for name in ["e.example.com", "*.e.com"].map(|it| DnsName::parse(it).unwrap()) {
            index.insert(&name);
            index.remove(&name);
            index.remove(&name);
        }
        let found = |asked: &str| match index.find(&dns::Name::from_text(asked).unwrap()) {
            Some(Match::Exact(name)) => name.to_string(),
            Some(Match::Wildcard(_)) => "*".to_owned(),
            None => String::new(),
        };
        assert_eq!(found("a.example.com"), "a.example.com.");
        assert_eq!(found("B.example.com"), "b.example.com.");
        assert_eq!(
            (found("x.c.com"), found("x.d.com")),
            ("*".to_owned(), "*".to_owned())
        );
        assert_eq!(
            (found("c.example.com"), found("x.e.com"), found(".")),
            Default::default()
        );
    }
}
