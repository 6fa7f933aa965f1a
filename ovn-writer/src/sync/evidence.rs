//! Whether the store is the one that the rows of this program come from, as far as can be told after a start.
//!
//! The rows of names that went while nobody looked bear our mark, and should go. But in a store that is wrong, that was emptied,
//! or of which only a little has come back so far, many names seem to have gone. Our own rows that have members are the memory
//! of what the store held: each name of them is a witness, for the store if it has the name and against it if not. A name whose
//! rule went with it shows by nothing referring to its rows any more; so those that something still refers to are asked, and all
//! only if there are none of these. Nothing is removed before half of the witnesses are for the store.
//!
//! So names may go by the thousand while nobody looks, as long as their rules go too. Where rules are not taken away with the
//! names and more than half of the names are gone, the rows stay until somebody says `--allow-empty`.

use foldhash::HashSet;
use proto::api::DnsName;

#[derive(Debug, Default)]
pub(super) struct Evidence {
    is_there: bool,
    /// The names with members in rows of ours when the database was read first, before this program made any.
    witnesses: Option<HashSet<DnsName>>,
    /// Whether a judgement may come out otherwise than the last one.
    is_due: bool,
    against: Against,
}

/// How many names speak against a store.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Against {
    /// Names that it lacks.
    pub(super) absent: usize,
    /// Names that were asked.
    pub(super) asked: usize,
}

/// What must be known of the witnesses to judge a store.
pub(super) trait Testimony {
    /// The names with members in rows of ours.
    fn witnesses(&self) -> HashSet<DnsName>;
    /// Whether anything refers to a row of ours of this name.
    fn is_referred_to(&self, name: &DnsName) -> bool;
    /// Whether the store has the name.
    fn is_in_store(&self, name: &DnsName) -> bool;
}

impl Evidence {
    /// None is needed.
    pub(super) fn unneeded() -> Self {
        Self {
            is_there: true,
            ..Self::default()
        }
    }

    /// Whether there is enough.
    pub(super) fn is_there(&self) -> bool {
        self.is_there
    }

    /// What speaks against the store, if it is not believed.
    pub(super) fn against(&self) -> Option<Against> {
        (!self.is_there).then_some(self.against)
    }

    /// Everything may be otherwise now.
    pub(super) fn is_due(&mut self) {
        self.is_due = true;
    }

    /// Something changed of these names, in the store or in who refers to their rows.
    pub(super) fn changed<'a>(&mut self, names: impl IntoIterator<Item = &'a DnsName>) {
        if self.is_there || self.is_due {
            return;
        }
        if let Some(witnesses) = &self.witnesses {
            self.is_due = names.into_iter().any(|name| witnesses.contains(name));
        }
    }

    /// Judges the store if that is due. Returns whether there is enough evidence only now.
    pub(super) fn judge(&mut self, testimony: &impl Testimony) -> bool {
        if self.is_there || !std::mem::take(&mut self.is_due) {
            return false;
        }
        let witnesses = self.witnesses.get_or_insert_with(|| testimony.witnesses());
        let mut asked: Vec<_> = witnesses
            .iter()
            .filter(|name| testimony.is_referred_to(name))
            .collect();
        if asked.is_empty() {
            asked.extend(witnesses.iter());
        }
        let is_absent = |name: &&&DnsName| !testimony.is_in_store(name);
        let absent = asked.iter().filter(is_absent).count();
        let asked = asked.len();
        self.against = Against { absent, asked };
        self.is_there = absent.saturating_mul(2) <= asked;
        if self.is_there {
            self.witnesses = None;
        }
        self.is_there
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::dns;

    /// Names by their first letter.
    #[derive(Clone, Copy, Default)]
    struct Seen {
        witnesses: &'static str,
        referred_to: &'static str,
        store: &'static str,
    }

    fn letter(name: &DnsName) -> &str {
        &name.as_str()[..1]
    }

    impl Testimony for Seen {
        fn witnesses(&self) -> HashSet<DnsName> {
            let names = self.witnesses.chars();
            names.map(|c| dns(&format!("{c}.example."))).collect()
        }

        fn is_referred_to(&self, name: &DnsName) -> bool {
            self.referred_to.contains(letter(name))
        }

        fn is_in_store(&self, name: &DnsName) -> bool {
            self.store.contains(letter(name))
        }
    }

    #[test]
    fn half_of_the_witnesses_must_be_for_the_store() {
        for (witnesses, referred_to, store, expected) in [
            // Nothing is ours: there is nothing to lose.
            ("", "", "", true),
            ("", "", "xyz", true),
            ("a", "", "", false),
            ("a", "", "x", false),
            ("a", "a", "x", false),
            ("a", "", "a", true),
            ("ab", "", "a", true),
            // One name in common is no evidence.
            ("abc", "", "ax", false),
            ("abc", "abc", "ax", false),
            ("abcd", "", "abx", true),
            // Names went, and their rules with them.
            ("abcdefgh", "ab", "ab", true),
            ("abcdefgh", "ab", "a", true),
            ("abcdefgh", "ab", "cdefgh", false),
            ("abcdefgh", "", "abc", false),
        ] {
            let seen = Seen {
                witnesses,
                referred_to,
                store,
            };
            let mut evidence = Evidence::default();
            assert!(!evidence.judge(&seen), "it is not due");
            evidence.is_due();
            let what = format!("{witnesses} {referred_to} {store}");
            assert_eq!(evidence.judge(&seen), expected, "{what}");
            assert_eq!(evidence.is_there(), expected, "{what}");
            assert_eq!(evidence.against().is_none(), expected, "{what}");
            evidence.is_due();
            assert!(!evidence.judge(&seen), "it is not news");
        }
    }

    #[test]
    fn it_is_judged_anew_when_a_witness_may_have_changed_its_mind() {
        let mut seen = Seen {
            witnesses: "abc",
            referred_to: "abc",
            store: "",
        };
        let mut evidence = Evidence::default();
        evidence.is_due();
        assert!(!evidence.judge(&seen));
        let against = Against {
            absent: 3,
            asked: 3,
        };
        assert_eq!(evidence.against(), Some(against));
        // Rows that came later, such as those that this program made for what is in the list, prove nothing.
        seen.witnesses = "abcxyz";
        seen.store = "axyz";
        evidence.changed(&[dns("x.example.")]);
        assert!(!evidence.judge(&seen), "it is not due");
        evidence.changed(&[dns("x.example."), dns("a.example.")]);
        assert!(!evidence.judge(&seen));
        let against = Against {
            absent: 2,
            asked: 3,
        };
        assert_eq!(evidence.against(), Some(against));
        // The object of another one comes.
        let more = Seen {
            store: "abxyz",
            ..seen
        };
        evidence.changed(&[dns("b.example.")]);
        assert!(evidence.judge(&more) && evidence.is_there());
        assert_eq!(evidence.against(), None);
    }

    #[test]
    fn where_the_rules_go_late_the_names_go_late() {
        let mut seen = Seen {
            witnesses: "abc",
            referred_to: "abc",
            store: "a",
        };
        let mut evidence = Evidence::default();
        evidence.is_due();
        assert!(!evidence.judge(&seen));
        seen.referred_to = "ab";
        evidence.changed(&[dns("c.example.")]);
        assert!(evidence.judge(&seen));
        assert!(Evidence::unneeded().is_there());
    }
}
