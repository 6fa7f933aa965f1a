//! Which names are wanted: the index that every event is held against.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash},
    sync::Arc,
};

use arc_swap::ArcSwap;
use foldhash::fast::RandomState;
use proto::{
    api::DnsName,
    dns::{self, Hashes, Qname},
};

/// An immutable set of wanted names, found by the hash of a question without allocating or copying it.
///
/// Who asks questions cannot make them collide, since the hash has a secret start; and who could would gain nothing, since
/// what is found is compared.
#[derive(Debug, Default)]
pub struct NameIndex<S = RandomState> {
    hasher: S,
    exact: Names,
    /// Wildcards, by what stands behind `*.`: such a name wants exactly one label more.
    wildcard: Names,
}

/// The index as the readers see it: replaced as a whole, never changed, so that they need no lock.
pub type SharedIndex = Arc<ArcSwap<NameIndex>>;

/// The index and its earlier versions, for its one writer.
#[derive(Debug)]
pub struct Index {
    shared: SharedIndex,
    /// Earlier ones, until no reader uses them.
    earlier: Vec<Arc<NameIndex>>,
}

impl Index {
    /// Of the index that readers share.
    pub fn new(shared: SharedIndex) -> Self {
        Self {
            shared,
            earlier: Vec::new(),
        }
    }

    /// Replaces the index. Readers that begin now use the new one.
    pub fn replace(&mut self, index: NameIndex) {
        // The swap makes every reader of the earlier one an owner of it, which its count shows.
        let earlier = self.shared.swap(Arc::new(index));
        self.earlier.push(earlier);
    }

    /// Whether every reader uses the current index.
    pub fn is_the_only_one(&mut self) -> bool {
        self.earlier.retain(|index| Arc::strong_count(index) > 1);
        self.earlier.is_empty()
    }
}

/// Why a name is wanted.
#[derive(Clone, Copy, Debug)]
pub enum Match<'a> {
    /// There is an object of this name.
    Exact(&'a DnsName),
    /// There is a wildcard one label above it. Whether an object can bear the name itself is still to be found out.
    Wildcard,
}

impl<S: BuildHasher> NameIndex<S> {
    /// Whether an object of this name, or a wildcard one label above it, is wanted.
    #[inline]
    pub fn find<'a>(&self, name: impl Into<Qname<'a>>) -> Option<Match<'_>> {
        let name = name.into();
        self.find_hashed(name, self.hashes(name))
    }

    /// What a name is looked for by.
    #[inline]
    pub(crate) fn hashes(&self, name: Qname<'_>) -> Hashes {
        name.hashes(&self.hasher)
    }

    /// The hash of anything, which no other index has the same.
    #[inline]
    pub(crate) fn hash(&self, it: impl Hash) -> u64 {
        self.hasher.hash_one(it)
    }

    /// A name that may be the one with these hashes, or the wildcard above it; not looked at itself.
    #[inline]
    pub(crate) fn glance(&self, hashes: Hashes) -> Option<&DnsName> {
        let exact = self.exact.0.get(&hashes.name);
        exact.or_else(|| self.wildcard.0.get(&hashes.parent))
    }

    /// [`NameIndex::find`] of a name with its [`hashes`](Self::hashes).
    #[inline]
    pub(crate) fn find_hashed(&self, name: Qname<'_>, hashes: Hashes) -> Option<Match<'_>> {
        let Hashes {
            name: hash,
            parent: above,
        } = hashes;
        if let Some(found) = self.exact.find(hash, name, DnsName::as_str) {
            return Some(Match::Exact(found));
        }
        self.wildcard
            .find(above, name.parent()?, behind_asterisk)
            .map(|_| Match::Wildcard)
    }
}

impl<'a, S: BuildHasher + Default> FromIterator<&'a DnsName> for NameIndex<S> {
    fn from_iter<I: IntoIterator<Item = &'a DnsName>>(names: I) -> Self {
        let mut index = Self::default();
        for name in names {
            let wire = dns::Name::from(name);
            let hashes = Qname::from(&wire).hashes(&index.hasher);
            if name.is_wildcard() {
                index.wildcard.insert(hashes.parent, name.clone());
            } else {
                index.exact.insert(hashes.name, name.clone());
            }
        }
        index
    }
}

/// Names by their hashes. One whose hash is taken by another has the next that is free.
#[derive(Debug, Default)]
struct Names(HashMap<u64, DnsName, RandomState>);

impl Names {
    fn insert(&mut self, mut hash: u64, name: DnsName) {
        while self.0.get(&hash).is_some_and(|other| *other != name) {
            hash = hash.wrapping_add(1);
        }
        self.0.insert(hash, name);
    }

    /// The name of which `part` is `wanted`.
    #[inline]
    fn find(
        &self,
        mut hash: u64,
        wanted: Qname<'_>,
        part: impl Fn(&DnsName) -> &str,
    ) -> Option<&DnsName> {
        loop {
            let name = self.0.get(&hash)?;
            if wanted.is_plain(part(name)) {
                return Some(name);
            }
            hash = hash.wrapping_add(1);
        }
    }
}

fn behind_asterisk(wildcard: &DnsName) -> &str {
    wildcard.as_str().strip_prefix("*.").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::{
        hash::Hasher,
        sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
        time::Duration,
    };

    use super::*;

    fn wants(wanted: &[&str], asked: &str) -> bool {
        let names: Vec<_> = wanted
            .iter()
            .map(|name| DnsName::parse(name).unwrap())
            .collect();
        names
            .iter()
            .collect::<NameIndex>()
            .find(&dns::Name::from_text(asked).unwrap())
            .is_some()
    }

    #[test]
    fn a_regular_name_wants_itself_in_any_case() {
        assert!(wants(&["www.example.com"], "WWW.Example.com."));
        assert!(!wants(&["www.example.com"], "example.com."));
        assert!(!wants(&["www.example.com"], "a.www.example.com."));
        assert!(!wants(&["www.example.com"], "ww.wexample.com."));
    }

    #[test]
    fn a_wildcard_wants_exactly_one_label_and_its_own_literal() {
        let wildcard = &["*.example.com"];
        assert!(wants(wildcard, "a.example.com."));
        assert!(wants(wildcard, "a_b.example.com."));
        assert!(wants(wildcard, "*.example.com."));
        assert!(!wants(wildcard, "a.b.example.com."));
        assert!(!wants(wildcard, "example.com."));
        assert!(!wants(wildcard, "com."));
        assert!(!wants(wildcard, "."));
    }

    #[test]
    fn a_dot_inside_a_label_is_not_a_label_boundary() {
        assert!(wants(&["*.example.com"], r"a\.b.example.com."));
        assert!(!wants(&["a.b.example.com"], r"a\.b.example.com."));
    }

    /// A reader keeps a name that its index lacks. Once every reader uses the new index, no reader keeps the name any more.
    #[test]
    fn a_reader_with_an_earlier_index_is_waited_for() {
        let shared = SharedIndex::default();
        let mut index = Index::new(Arc::clone(&shared));
        assert!(index.is_the_only_one());
        let name = DnsName::parse("www.example.com").unwrap();
        let wire = dns::Name::from(&name);
        let (kept, ends) = (AtomicUsize::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !ends.load(SeqCst) {
                        let index = shared.load();
                        if index.find(&wire).is_none() {
                            std::thread::yield_now();
                            kept.fetch_add(1, SeqCst);
                        }
                    }
                });
            }
            for _ in 0..200 {
                index.replace(NameIndex::default());
                let before = kept.load(SeqCst);
                while kept.load(SeqCst) == before {
                    std::thread::yield_now();
                }
                index.replace([&name].into_iter().collect());
                while !index.is_the_only_one() {
                    std::thread::yield_now();
                }
                let all = kept.load(SeqCst);
                std::thread::sleep(Duration::from_micros(100));
                assert_eq!(kept.load(SeqCst), all);
            }
            ends.store(true, SeqCst);
        });
    }

    /// All names have the same hash.
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
        let index: NameIndex<One> = names.iter().collect();
        let found = |asked: &str| match index.find(&dns::Name::from_text(asked).unwrap()) {
            Some(Match::Exact(name)) => name.to_string(),
            Some(Match::Wildcard) => "*".to_owned(),
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
