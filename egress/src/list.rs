//! `egress list`: names and addresses, with their origins, their sets and their policies.

mod table;

use std::collections::HashMap;

use clap::Args;
use futures_util::{StreamExt, stream};
use proto::{
    facts::{ListedName, ObjectFacts, Program, Query, SetFacts, Status, UnallowedName},
    timestamp::Timestamp,
};
use runtime::UsageError;
use serde::Serialize;

use crate::{
    nodes::{leading, leading_collector},
    output::{self, Format},
    pattern::NamePattern,
    targets::{AT_ONCE, NamespaceArgs, Target, TargetArgs, Targets, Unreachable},
};

/// Lists names with their addresses.
///
/// A line has the origin of an address, and until when it is kept. It has the namespaces that asked, and how many nodes have the address.
/// Names and addresses come from the collector that leads, sets from all ovn-writers. A policy-writer adds the DNSResolvers whose policies
/// have the address. A name without an address has the reason instead.
///
/// Exit status 0: all programs answered. 2: one did not.
#[derive(Args, Clone, Debug)]
pub struct ListArgs {
    /// Only names that contain this text, or match it if it has a `*`, such as `*.example.com`. Default: all names.
    #[arg(long, value_name = "TEXT")]
    pub name: Option<NamePattern>,

    #[command(flatten)]
    pub scope: NamespaceArgs,

    /// The format of the list.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    pub output: Format,

    #[command(flatten)]
    pub targets: TargetArgs,
}

/// The list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct List {
    /// The time of the names.
    at: Timestamp,
    /// The collector that they come from, and whether it leads.
    collector: String,
    is_leader: bool,
    names: Vec<Listed>,
    /// The names without a rule that clients asked for most.
    not_allowed_by_name: Vec<UnallowedName>,
    unreachable: Vec<Unreachable>,
    /// The number of the collector's problems.
    problems: usize,
    /// The number of ovn-writers that answered.
    #[serde(skip)]
    writers: usize,
    /// Whether a policy-writer answered.
    #[serde(skip)]
    has_policies: bool,
}

/// A name, as the collector has it, and what the writers made of it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    #[serde(flatten)]
    name: ListedName,
    sets: Vec<SetOnNodes>,
    dns_resolvers: Vec<ResolverOfName>,
}

/// A set, with the nodes on which it is the same.
#[derive(Clone, Debug, Serialize)]
struct SetOnNodes {
    nodes: Vec<String>,
    #[serde(flatten)]
    set: SetFacts,
}

/// A DNSResolver that lists a name.
#[derive(Clone, Debug, Serialize)]
struct ResolverOfName {
    namespace: String,
    name: String,
    objects: Vec<ObjectFacts>,
    /// The addresses of the name in the object that decides what pods reach.
    addresses: Vec<std::net::IpAddr>,
}

/// Prints the list. Returns whether every program answered, or fails.
///
/// # Errors
/// [`UsageError`]: no collector or not every program answers, or stdout cannot be written.
pub(crate) async fn run(args: ListArgs) -> anyhow::Result<bool> {
    let targets = args.targets.find().await?;
    let query = Query {
        name: args
            .name
            .as_ref()
            .map_or("", NamePattern::longest_part)
            .to_owned(),
        namespace: args.scope.namespace.clone(),
        ..Query::all()
    };
    // Sets and DNSResolvers have the names of rules: a name under a wildcard is in the wildcard's. Rules of a set may be of
    // other namespaces.
    let of_rules = Query {
        name: String::new(),
        ..query.clone()
    };
    let of_sets = Query {
        namespace: None,
        ..of_rules.clone()
    };
    let (mut list, (sets, writers, unreachable), (mut resolvers, more)) = tokio::try_join!(
        names(&args, &targets, &query),
        async { anyhow::Ok(sets(&targets, &of_sets).await) },
        async { anyhow::Ok(resolvers(&targets, &of_rules).await) },
    )?;
    list.unreachable.extend(unreachable.into_iter().chain(more));
    list.writers = writers;
    list.has_policies = resolvers.is_some();
    for listed in &mut list.names {
        let name = listed.name.facts.name.as_str();
        listed.sets = sets.get(name).cloned().unwrap_or_default();
        let of_name = resolvers.as_mut().and_then(|it| it.remove(name));
        listed.dns_resolvers = of_name.unwrap_or_default();
    }
    let text = |list: &List| table::table(list, args.name.as_ref());
    output::line(&args.output.render(&list, text)?)?;
    if !list.unreachable.is_empty() {
        return Err(UsageError("the list is incomplete: not every program answers".into()).into());
    }
    Ok(true)
}

/// All pages of a program: `take` moves what is asked for out of a page, and returns the last name if more follow.
async fn pages(
    target: &Target,
    query: &Query,
    first: Option<Status>,
    mut take: impl FnMut(Status) -> Option<String>,
) -> anyhow::Result<()> {
    let (mut query, mut page) = (query.clone(), first);
    loop {
        let status = match page.take() {
            Some(page) => page,
            None => target.ask(&query.path()).await?,
        };
        match take(status) {
            Some(last) => query.after = Some(last),
            None => return Ok(()),
        }
    }
}

/// The names of the collector that leads, or else of another one.
async fn names(args: &ListArgs, targets: &Targets, query: &Query) -> anyhow::Result<List> {
    let (target, first, unreachable) = leading_collector(targets, query).await?;
    let mut list = List {
        at: first.head.now,
        collector: target.place.clone(),
        is_leader: first.head.leader,
        names: Vec::new(),
        not_allowed_by_name: Vec::new(),
        unreachable,
        problems: first.problems.listed.len() + first.problems.more,
        writers: 0,
        has_policies: false,
    };
    let take = |page: Status| {
        let facts = page.collector?;
        list.not_allowed_by_name.extend(facts.not_allowed_by_name);
        let names = facts.names.into_iter().filter(|name| args.selects(name));
        list.names.extend(names.map(|name| Listed {
            name,
            sets: Vec::new(),
            dns_resolvers: Vec::new(),
        }));
        facts.next.map(|next| next.to_string())
    };
    let all = pages(target, query, Some(first), take).await;
    all.map_err(|error| UsageError(format!("the {target} does not answer: {error:#}")))?;
    Ok(list)
}

/// The sets of all nodes by name, and the number of ovn-writers that answered.
async fn sets(
    targets: &Targets,
    query: &Query,
) -> (HashMap<String, Vec<SetOnNodes>>, usize, Vec<Unreachable>) {
    let asked = targets.of(Program::OvnWriter).map(async |target| {
        let mut sets = Vec::new();
        let take = |page: Status| {
            let facts = page.ovn_writer?;
            sets.extend(facts.sets);
            facts.next.map(|next| next.to_string())
        };
        let all = pages(target, query, None, take).await;
        (target, all.map(|()| sets))
    });
    let answers = stream::iter(asked).buffered(AT_ONCE).collect().await;
    let (answers, unreachable) = Unreachable::split(answers);
    let writers = answers.len();
    let mut by_name = HashMap::new();
    for (target, sets) in answers {
        for set in sets {
            add_set(&mut by_name, &target.place, set);
        }
    }
    (by_name, writers, unreachable)
}

fn add_set(by_name: &mut HashMap<String, Vec<SetOnNodes>>, place: &str, set: SetFacts) {
    let known = by_name.entry(set.name.clone()).or_default();
    match known.iter_mut().find(|known| known.set == set) {
        Some(known) => known.nodes.push(place.to_owned()),
        None => known.push(SetOnNodes {
            nodes: vec![place.to_owned()],
            set,
        }),
    }
}

type Resolvers = HashMap<String, Vec<ResolverOfName>>;

/// The DNSResolvers by name, of the policy-writer that leads, or else of another one; `None` if none answers.
async fn resolvers(targets: &Targets, query: &Query) -> (Option<Resolvers>, Vec<Unreachable>) {
    let answers = targets
        .ask::<Status>(Program::PolicyWriter, &query.path())
        .await;
    let (answers, mut unreachable) = Unreachable::split(answers);
    let Some((target, first)) = leading(answers) else {
        return (None, unreachable);
    };
    let mut by_name = Resolvers::new();
    let take = |page: Status| {
        let facts = page.policy_writer?;
        for resolver in facts.dns_resolvers {
            for name in resolver.names {
                by_name.entry(name.name).or_default().push(ResolverOfName {
                    namespace: resolver.namespace.clone(),
                    name: resolver.name.clone(),
                    objects: resolver.objects.clone(),
                    addresses: name.addresses,
                });
            }
        }
        facts.next
    };
    if let Err(error) = pages(target, query, Some(first), take).await {
        unreachable.push(Unreachable::new(target, &error));
    }
    (Some(by_name), unreachable)
}

impl ListArgs {
    /// Whether the name, or one of the names under it, matches `--name`.
    fn selects(&self, name: &ListedName) -> bool {
        self.name.as_ref().is_none_or(|pattern| {
            let mut under = name.facts.addresses.iter();
            pattern.matches(name.facts.name.as_str())
                || under.any(|address| pattern.matches(address.name.as_str()))
        })
    }
}

#[cfg(test)]
mod tests {
    use proto::api::Family;

    use super::*;

    #[test]
    fn nodes_with_the_same_set_are_together() {
        let set = |present: usize| SetFacts {
            name: "a.test.".to_owned(),
            set: "a1".to_owned(),
            controller: String::new(),
            family: Family::V4,
            wanted: 1,
            present: Some(present),
            addresses: Vec::new(),
            rules: 0,
            namespaces: Vec::new(),
            more_namespaces: 0,
            difference: None,
            is_being_written: false,
        };
        let mut by_name = HashMap::new();
        for (place, present) in [("one", 1), ("two", 0), ("three", 1)] {
            add_set(&mut by_name, place, set(present));
        }
        let nodes: Vec<_> = by_name["a.test."].iter().map(|it| &it.nodes).collect();
        assert_eq!(nodes, [&vec!["one", "three"], &vec!["two"]]);
    }
}
