//! One `DNSNameResolver`, reduced to save memory.

use proto::api::{DnsName, DnsNameResolver, ResolvedName};
use smol_str::SmolStr;

use super::{Filter, Skip};
use crate::addresses::Addresses;

#[derive(Debug)]
pub(super) struct Resolver {
    pub(super) name: DnsName,
    uid: Option<Box<str>>,
    pub(super) statement: Statement,
    pub(super) addresses: Addresses,
    pub(super) skipped: Box<[Skip]>,
}

/// The kind of a status.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Statement {
    /// No statement: the collector has not written it yet, or the object was restored without its status.
    Silent,
    /// The list of its addresses, possibly with a reason why there is none.
    Complete,
    /// The collector never writes a status: it ignores objects whose `spec.name` is not in its own spelling.
    Ignored,
}

impl Statement {
    fn of(name: &DnsName, object: &DnsNameResolver, has_address: bool) -> Self {
        if has_address {
            return Self::Complete;
        }
        let entries = object.status.iter().flat_map(|it| &it.resolved_names);
        let own = entries.filter(|entry| entry.dns_name == object.spec.name);
        match own.filter_map(ResolvedName::failure).next() {
            Some(_) => Self::Complete,
            None if object.spec.name != name.as_str() => Self::Ignored,
            None => Self::Silent,
        }
    }
}

impl Resolver {
    pub(super) fn read(name: DnsName, object: &DnsNameResolver, filter: &Filter) -> Self {
        let (mut addresses, mut skipped) = (Vec::new(), Vec::new());
        for text in texts_of(object) {
            match filter.admit(text) {
                Ok(address) => addresses.push(address),
                Err(reason) => skipped.push(reason),
            }
        }
        // An address that is filtered out still counts here.
        let has_address =
            !addresses.is_empty() || skipped.iter().any(|skip| *skip != Skip::Unparsable);
        Self {
            statement: Statement::of(&name, object, has_address),
            name,
            uid: object.metadata.uid.as_deref().map(Into::into),
            addresses: addresses.into_iter().collect(),
            skipped: skipped.into(),
        }
    }

    /// Whether the other is a later version of the same object, and not a new one.
    pub(super) fn is_same(&self, name: &DnsName, other: &DnsNameResolver) -> bool {
        let uids = self.uid.as_deref().zip(other.metadata.uid.as_deref());
        self.name == *name && uids.is_none_or(|(one, other)| one == other)
    }
}

fn texts_of(object: &DnsNameResolver) -> impl Iterator<Item = &SmolStr> {
    let entries = object
        .status
        .iter()
        .flat_map(|status| &status.resolved_names);
    entries
        .flat_map(|entry| &entry.resolved_addresses)
        .map(|resolved| &resolved.ip)
}
