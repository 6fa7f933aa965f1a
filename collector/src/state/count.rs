//! How many addresses there are, and how many of them are there only as some namespaces ask for longer terms than others.

use runtime::clock::Timestamp;

use super::{Limits, Memory, name::Name};

/// How many addresses there are.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Count {
    /// All of them.
    pub all: usize,
    /// Those that would be kept on the shortest terms, too.
    pub on_shortest_terms: usize,
}

impl From<usize> for Count {
    /// As many on any terms.
    fn from(addresses: usize) -> Self {
        Self {
            all: addresses,
            on_shortest_terms: addresses,
        }
    }
}

/// On which terms addresses are kept.
#[derive(Clone, Copy, Debug)]
pub struct Kept<'a> {
    /// The longest, which hold.
    pub limits: &'a Limits,
    /// The shortest, if they differ.
    pub shortest: Option<&'a Limits>,
    /// When it is asked.
    pub now: Timestamp,
}

impl Kept<'_> {
    pub(super) fn count(&self, name: &Name) -> Count {
        let all = name.addresses.len();
        let Some(shortest) = self.shortest else {
            return all.into();
        };
        let addresses = name.addresses.iter();
        let removals = addresses.map(|it| it.earliest_removal_on(shortest, self.limits));
        Count {
            all,
            on_shortest_terms: removals.filter(|at| *at > self.now).count(),
        }
    }
}

impl Memory {
    /// The addresses of the name that all this is of: not of names that a wildcard found.
    pub fn own(&self, kept: &Kept<'_>) -> Count {
        let is_own = |it: &&Name| !self.spec.is_wildcard() || it.dns_name == self.spec;
        let own = self.names.iter().filter(is_own).map(|it| kept.count(it));
        own.fold(Count::default(), |sum, it| Count {
            all: sum.all + it.all,
            on_shortest_terms: sum.on_shortest_terms + it.on_shortest_terms,
        })
    }
}
