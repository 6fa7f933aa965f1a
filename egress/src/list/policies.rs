//! The DNSResolvers with a name, and the addresses that their objects have.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::Value;

use crate::nodes::{field, leading, leads};
use crate::targets::{Kind, Target, Targets, Unreachable};

/// The names of all DNSResolvers.
#[derive(Debug, Default)]
pub(super) struct PolicyIndex {
    by_name: HashMap<String, Vec<DnsResolverOfName>>,
    /// Whether a policy-writer answered.
    pub(super) is_known: bool,
}

/// A DNSResolver that lists a name.
#[derive(Debug, Serialize)]
pub(super) struct DnsResolverOfName {
    namespace: Value,
    name: Value,
    /// The kinds of its objects, and their states.
    objects: Value,
    /// The addresses of the name in the object that decides what pods reach.
    addresses: Value,
}

impl PolicyIndex {
    /// Reads the names of the policy-writer that leads, or else of another one.
    pub(super) async fn read(
        targets: &Targets,
        filter: Option<&str>,
        namespace: Option<&str>,
    ) -> (Self, Vec<Unreachable>) {
        let ask = |after: Option<&str>| path(filter, namespace, after);
        let answers = targets.ask::<Value>(Kind::PolicyWriter, &ask(None)).await;
        let (answers, mut unreachable) = Unreachable::split(answers);
        let mut index = Self::default();
        let Some((target, mut page)) = leading(answers, leads) else {
            return (index, unreachable);
        };
        index.is_known = true;
        loop {
            let after = field(&page, "next").as_str().map(str::to_owned);
            index.add(&mut page);
            let Some(after) = after else {
                return (index, unreachable);
            };
            page = match next_page(target, &ask(Some(&after))).await {
                Ok(page) => page,
                Err(error) => {
                    unreachable.push(error);
                    return (index, unreachable);
                }
            };
        }
    }

    fn add(&mut self, page: &mut Value) {
        let resolvers = page
            .get_mut("dnsResolvers")
            .map_or(Value::Null, Value::take);
        let Value::Array(resolvers) = resolvers else {
            return;
        };
        for mut resolver in resolvers {
            let mut take = |name: &str| resolver.get_mut(name).map_or(Value::Null, Value::take);
            let (namespace, name, objects) = (take("namespace"), take("name"), take("objects"));
            let Value::Array(names) = take("names") else {
                continue;
            };
            for listed in names {
                let text = field(&listed, "name").as_str().unwrap_or_default();
                let known = self.by_name.entry(text.to_owned()).or_default();
                known.push(DnsResolverOfName {
                    namespace: namespace.clone(),
                    name: name.clone(),
                    objects: objects.clone(),
                    addresses: field(&listed, "addresses").clone(),
                });
            }
        }
    }

    /// The DNSResolvers with a name, as rules have it.
    pub(super) fn of(&self, name: &str) -> &[DnsResolverOfName] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }
}

async fn next_page(target: &Target, path: &str) -> Result<Value, Unreachable> {
    let page = target.ask(path).await;
    page.map_err(|error| Unreachable::new(target, &error))
}

fn path(filter: Option<&str>, namespace: Option<&str>, after: Option<&str>) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (key, value) in [
        ("filter", filter),
        ("namespace", namespace),
        ("after", after),
    ] {
        query.extend_pairs(value.map(|value| (key, value)));
    }
    format!("/dnsresolvers.json?{}", query.finish())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_has_each_dns_resolver_that_lists_it() {
        let listed = |name: &str, address: &str| json!({"name": name, "addresses": [address]});
        let resolver = |name: &str, names: Value| json!({"namespace": "team-a", "name": name, "objects": [], "names": names});
        let mut page = json!({"dnsResolvers": [
            resolver("one", json!([listed("a.test.", "192.0.2.1"), listed("b.test.", "192.0.2.2")])),
            resolver("two", json!([listed("a.test.", "192.0.2.1")])),
        ]});
        let mut index = PolicyIndex::default();
        index.add(&mut page);
        let names = index.of("a.test.").iter().map(|it| &it.name);
        assert_eq!(names.collect::<Vec<_>>(), ["one", "two"]);
        assert_eq!(index.of("b.test.").len(), 1);
        assert!(index.of("c.test.").is_empty());
    }
}
