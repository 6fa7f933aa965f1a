//! One `DNSNameResolver`, as small as it can be kept.

use std::ops::ControlFlow;

use proto::api::{DEGRADED, DnsName, DnsNameResolver, NO_RULE, ResolvedName};
use smol_str::SmolStr;
use uuid::Uuid;

use super::{Filter, Skip};
use crate::addresses::Addresses;

/// An object.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) name: DnsName,
    uid: Option<Uid>,
    pub(super) statement: Statement,
    pub(super) addresses: Addresses,
    pub(super) skipped: Box<[Skip]>,
    /// If there are enough addresses for it to be of use.
    texts: Option<Box<Texts>>,
}

/// What a status says of the addresses of its name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Statement {
    /// Nothing: the collector has not written it yet, or the object was restored without its status.
    Silent,
    /// Its addresses, of which there is at least one, or that there is none.
    Complete,
    /// The rule ended, and the object is about to be deleted.
    RuleEnded,
    /// Nothing, and the collector never will: it ignores objects whose `spec.name` is not spelt as it spells names.
    Ignored,
}

impl Statement {
    fn of(name: &DnsName, object: &DnsNameResolver, has_address: bool) -> Self {
        if has_address {
            return Self::Complete;
        }
        let entries = object.status.iter().flat_map(|it| &it.resolved_names);
        let own = entries.filter(|entry| entry.dns_name == object.spec.name);
        match own.filter_map(failure).next() {
            Some(NO_RULE) => Self::RuleEnded,
            Some(_) => Self::Complete,
            None if object.spec.name != name.as_str() => Self::Ignored,
            None => Self::Silent,
        }
    }
}

/// Why look-ups of the name of an entry fail, if the entry says so.
fn failure(entry: &ResolvedName) -> Option<&str> {
    let condition = entry
        .conditions
        .iter()
        .find(|it| it.type_ == DEGRADED && it.status == "True" && !it.reason.is_empty())?;
    Some(&condition.reason)
}

/// `metadata.uid`: in a cluster a UUID, which takes less room than its text.
#[derive(Debug, Eq, PartialEq)]
enum Uid {
    Uuid(Uuid),
    Other(Box<str>),
}

impl Uid {
    fn of(object: &DnsNameResolver) -> Option<Self> {
        let text = object.metadata.uid.as_deref()?;
        Some(match text.parse() {
            Ok(uuid) => Self::Uuid(uuid),
            Err(_) => Self::Other(text.into()),
        })
    }
}

/// With fewer addresses it is as fast to read a status anew as to look for what came.
const MANY: usize = 64;

/// What a status has, and had not before.
#[derive(Debug, Default)]
pub(super) struct Came {
    pub(super) addresses: Addresses,
    pub(super) skipped: Vec<Skip>,
}

impl Came {
    fn read<'a>(texts: impl IntoIterator<Item = &'a SmolStr>, filter: &Filter) -> Self {
        let (mut addresses, mut skipped) = (Vec::new(), Vec::new());
        for text in texts {
            match filter.admit(text) {
                Ok(address) => addresses.push(address),
                Err(reason) => skipped.push(reason),
            }
        }
        Self {
            addresses: addresses.into_iter().collect(),
            skipped,
        }
    }

    /// Whether there is an address, be it one that may stand in no set.
    fn has_address(&self) -> bool {
        !self.addresses.all().is_empty() || self.skipped.iter().any(|s| *s != Skip::Unparsable)
    }
}

impl Object {
    /// The object as it is.
    pub(super) fn read(name: DnsName, object: &DnsNameResolver, filter: &Filter) -> Self {
        let came = Came::read(texts_of(object), filter);
        Self {
            statement: Statement::of(&name, object, came.has_address()),
            name,
            uid: Uid::of(object),
            addresses: came.addresses,
            skipped: came.skipped.into(),
            texts: Texts::of_many(texts_of(object)).map(Box::new),
        }
    }

    /// Whether the other is a later version of this one, and not another one in its place.
    pub(super) fn is_same(&self, name: &DnsName, other: &DnsNameResolver) -> bool {
        let uids = self.uid.as_ref().zip(Uid::of(other));
        self.name == *name && uids.is_none_or(|(one, other)| *one == other)
    }

    /// Takes over a later version of which the status has what it had, in the same order, with or without some that came at one
    /// place; `None` for any other. It costs far less than reading the status anew.
    pub(super) fn grow(&mut self, object: &DnsNameResolver, filter: &Filter) -> Option<Came> {
        let texts = self.texts.as_mut()?.take_over(texts_of(object))?;
        let mut came = Came::read(texts, filter);
        self.uid = Uid::of(object);
        if came.has_address() {
            self.statement = Statement::Complete;
        }
        let new = came.addresses.all().without(self.addresses.all());
        came.addresses = new.into_iter().collect();
        self.addresses.toggle(came.addresses.clone());
        if !came.skipped.is_empty() {
            self.skipped = [&*self.skipped, &came.skipped].concat().into();
        }
        Some(came)
    }
}

fn texts_of(object: &DnsNameResolver) -> impl Iterator<Item = &SmolStr> + Clone {
    let entries = object
        .status
        .iter()
        .flat_map(|status| &status.resolved_names);
    entries
        .flat_map(|entry| &entry.resolved_addresses)
        .map(|resolved| &resolved.ip)
}

/// The addresses of a status as they are written there, in their order: to compare them costs far less than to read them.
#[derive(Debug)]
struct Texts(Vec<SmolStr>);

impl Texts {
    /// Those of a status that has [`MANY`], with room for some that come later.
    fn of_many<'a>(texts: impl Iterator<Item = &'a SmolStr> + Clone) -> Option<Self> {
        let count = texts.clone().count();
        if count < MANY {
            return None;
        }
        let mut kept = Vec::with_capacity(count + count / 8);
        kept.extend(texts.cloned());
        Some(Self(kept))
    }

    /// If there is nothing but what was there before, in the same order, and perhaps some more at one place: these, which are
    /// then taken over.
    fn take_over<'a>(
        &mut self,
        mut texts: impl Iterator<Item = &'a SmolStr>,
    ) -> Option<Vec<&'a SmolStr>> {
        let mut rest = &*self.0;
        let same = texts.try_for_each(|text| match rest.split_first() {
            Some((first, behind)) if first == text => {
                rest = behind;
                ControlFlow::Continue(())
            }
            _ => ControlFlow::Break(text),
        });
        let mut came: Vec<_> = same.break_value().into_iter().chain(texts).collect();
        let tail = came.split_off(came.len().checked_sub(rest.len())?);
        if tail.into_iter().ne(rest) {
            return None;
        }
        let place = self.0.len().saturating_sub(rest.len());
        self.0.splice(place..place, came.iter().copied().cloned());
        Some(came)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{dns, object};

    /// More than many addresses, of which every seventh is no good one.
    fn texts(numbers: impl IntoIterator<Item = usize>) -> Vec<String> {
        let text = |n| {
            if n % 7 == 0 {
                format!("127.0.0.{n}")
            } else {
                format!("10.0.0.{n}")
            }
        };
        numbers.into_iter().map(text).collect()
    }

    proptest! {
        #[test]
        fn what_grew_is_what_is_read_anew(
            at in 0_usize..=MANY + 1,
            came in prop::collection::vec(0_usize..200, 0..4),
        ) {
            let mut all = texts(0..=MANY);
            let read = |texts: &[String]| {
                let texts: Vec<_> = texts.iter().map(String::as_str).collect();
                let (one, other) = texts.split_at(at.min(texts.len()));
                object("o", "a.example.", &[one, other])
            };
            let (name, filter) = (dns("a.example."), Filter::default());
            let mut object = Object::read(name.clone(), &read(&all), &filter);
            let before = object.addresses.clone();
            all.splice(at..at, texts(came));
            let grown = object.grow(&read(&all), &filter).unwrap();
            let anew = Object::read(name, &read(&all), &filter);
            prop_assert_eq!(&object.addresses, &anew.addresses);
            let counts = |object: &Object| {
                Skip::ALL.map(|skip| object.skipped.iter().filter(|s| **s == skip).count())
            };
            prop_assert_eq!(counts(&object), counts(&anew));
            let new: Addresses = anew.addresses.all().without(before.all()).into_iter().collect();
            prop_assert_eq!(grown.addresses, new);
            prop_assert!(object.grow(&read(&all[..MANY]), &filter).is_none());
        }

        #[test]
        fn what_came_at_one_place_is_told_and_all_else_is_refused(
            was in prop::collection::vec("[ab]{0,2}|c{22,25}", 0..6),
            other in prop::collection::vec("[ab]{0,2}|c{22,25}", 0..6),
            at in 0_usize..6,
            grows: bool,
        ) {
            let [was, other] = [was, other].map(|texts| -> Vec<SmolStr> {
                texts.into_iter().map(SmolStr::from).collect()
            });
            let at = at.min(was.len());
            let is = if grows { [&was[..at], &other, &was[at..]].concat() } else { other };
            let mut texts = Texts(was.clone());
            let mut take_over = |of: &[SmolStr]| -> Option<Vec<SmolStr>> {
                Some(texts.take_over(of.iter())?.into_iter().cloned().collect())
            };
            let run = is.len().checked_sub(was.len());
            let can = run.is_some_and(|run| {
                (0..=was.len()).any(|at| is[..at] == was[..at] && is[at + run..] == was[at..])
            });
            let came = take_over(&is);
            prop_assert_eq!(came.is_some(), can);
            prop_assert_eq!(take_over(if can { &is } else { &was }), Some(vec![]));
            if let Some(came) = came {
                let (mut all, mut is) = ([was, came].concat(), is);
                all.sort();
                is.sort();
                prop_assert_eq!(all, is);
            }
        }
    }
}
