//! Why an address or a name is in the objects of `DNSResolver` objects, or is not.

use std::{collections::BTreeSet, net::IpAddr};

use proto::facts::{
    Asked, ExplainedAddress, ExplainedResolver, PoliciesExplained, Reason, Subject,
};
use runtime::store::ObjectKey;

use super::{MOST, deciding, objects, of_program, of_resolver, trouble};
use crate::{
    names::Listed,
    plan::{Now, Output, Planner, Resolver},
};

/// Explains a name or an address.
pub fn explain(planner: &Planner, asked: &Asked, now: Now) -> PoliciesExplained {
    let mut told = PoliciesExplained {
        reasons: of_program(planner),
        ..PoliciesExplained::default()
    };
    match &asked.subject {
        Ok(subject) => {
            let namespace = asked.namespace.as_ref();
            let all = planner.resolvers.iter();
            let all = all.filter(|(key, _)| namespace.is_none_or(|it| *it == key.namespace));
            let found = all.filter_map(|(key, it)| explained(planner, key, it, subject, now));
            told.dns_resolvers.extend(found);
            told.reasons.extend(of_subject(planner, subject, &told));
        }
        Err((_, error)) => told.reasons.push(Reason::new("NotAName", error.clone())),
    }
    let is_there = |it: &ExplainedResolver| it.addresses.iter().any(|it| it.is_there);
    told.is_wanted = !told.dns_resolvers.is_empty();
    told.is_there = told.is_wanted && told.dns_resolvers.iter().all(is_there);
    told.more_dns_resolvers = told.dns_resolvers.len().saturating_sub(MOST);
    told.dns_resolvers.truncate(MOST);
    told
}

/// Why nothing can have the subject.
fn of_subject(planner: &Planner, subject: &Subject, told: &PoliciesExplained) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let words = match subject {
        Subject::Address(address) => {
            if let Err(skip) = planner.names.filter().admit(&address.to_string()) {
                let skip = skip.as_str();
                let words = format!("no object may have it: the guards refuse it ({skip})");
                reasons.push(Reason::new("AddressRefused", words));
            }
            "no DNSResolver has a name with this address"
        }
        Subject::Name(_) => "no DNSResolver lists this name",
    };
    if told.dns_resolvers.is_empty() {
        reasons.push(Reason::new("NoDNSResolver", words));
    }
    reasons
}

/// One `DNSResolver`; `None` if it has nothing to do with the subject.
fn explained(
    planner: &Planner,
    key: &ObjectKey,
    resolver: &Resolver,
    subject: &Subject,
    now: Now,
) -> Option<ExplainedResolver> {
    let is_asked = |listed: &&Listed| match (subject, &listed.name) {
        (Subject::Address(address), _) => planner.names.addresses(listed).contains(address),
        // The name itself, or the wildcard that matches it.
        (Subject::Name(name), Ok(listed)) => listed == name || listed.matches(name),
        (Subject::Name(_), Err(_)) => false,
    };
    let listed: Vec<_> = resolver.request.names.iter().filter(is_asked).collect();
    let stored = |output| planner.own(key, resolver, output);
    let kinds = planner.kinds_of(key, resolver);
    let mut addresses = BTreeSet::new();
    match subject {
        Subject::Address(address) => {
            let mut own = kinds.iter().filter_map(|output| stored(*output));
            if listed.is_empty() && !own.any(|own| own.has(*address)) {
                return None;
            }
            addresses.insert(*address);
        }
        Subject::Name(_) if listed.is_empty() => return None,
        Subject::Name(_) => {
            for it in &listed {
                let map = stored(Output::Map).and_then(|map| map.addresses.get(&it.text));
                addresses.extend(planner.names.addresses(it));
                addresses.extend(map.into_iter().flatten());
            }
        }
    }
    let troubles = listed.iter().filter_map(|it| {
        let trouble = trouble(planner, it)?;
        Some(Reason::new("Name", format!("{}: {trouble}", it.text)))
    });
    let mut reasons: Vec<_> = troubles.collect();
    reasons.extend(of_resolver(planner, key, resolver, now));
    let deciding = deciding(planner, key, resolver);
    let shown = addresses.iter().map(|address| {
        let is_there = deciding.is_some_and(|it| it.has(*address));
        let has = |output: &Output| stored(*output).is_some_and(|it| it.has(*address));
        ExplainedAddress {
            address: *address,
            objects: kinds
                .iter()
                .filter(|it| has(it))
                .map(|it| it.name().to_owned())
                .collect(),
            is_there,
            reason: reason(planner, resolver, &listed, *address, is_there).map(str::to_owned),
        }
    });
    Some(ExplainedResolver {
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        objects: objects(planner, key, resolver),
        names: listed.iter().map(|it| it.text.clone()).collect(),
        addresses: shown.collect(),
        reasons,
    })
}

/// Why an address is not there, or why it is there without a name.
fn reason(
    planner: &Planner,
    resolver: &Resolver,
    listed: &[&Listed],
    address: IpAddr,
    is_there: bool,
) -> Option<&'static str> {
    let mut names = listed.iter();
    if !is_there {
        let is_left_out = names.any(|it| resolver.left_out.contains_key(&it.text));
        return Some(if is_left_out {
            "left out at a limit"
        } else {
            "not written"
        });
    }
    if names.any(|it| planner.names.addresses(it).contains(&address)) {
        return None;
    }
    Some(if planner.is_answered(resolver) {
        "no name has it now, and it is about to leave"
    } else {
        "no name has it now; it stays until each name is answered once"
    })
}
