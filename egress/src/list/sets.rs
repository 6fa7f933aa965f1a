//! The address sets of all nodes, by name.

use std::collections::HashMap;

use futures_util::future::join_all;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::nodes::field;
use crate::targets::{AT_ONCE, Kind, Target, Targets, Unreachable};

/// A set, with the nodes on which it is the same.
#[derive(Debug, Serialize)]
pub(super) struct SetOnNodes {
    pub(super) nodes: Vec<String>,
    /// As `/sets.json` has it.
    #[serde(flatten)]
    pub(super) set: Value,
}

/// The sets of all nodes.
#[derive(Debug, Default)]
pub(super) struct SetIndex {
    by_name: HashMap<String, Vec<SetOnNodes>>,
    /// The number of ovn-writers that answered.
    pub(super) writers: usize,
}

impl SetIndex {
    /// Reads the sets of all ovn-writers, and names those that do not answer.
    pub(super) async fn read(targets: &Targets, filter: Option<&str>) -> (Self, Vec<Unreachable>) {
        let permits = Semaphore::new(AT_ONCE);
        let asked = targets.of(Kind::OvnWriter).map(async |target| {
            let _permit = permits.acquire().await;
            (target, sets(target, filter).await)
        });
        let (answers, unreachable) = Unreachable::split(join_all(asked).await);
        let mut index = Self {
            writers: answers.len(),
            ..Self::default()
        };
        for (target, sets) in answers {
            for set in sets {
                index.add(&target.place, set);
            }
        }
        (index, unreachable)
    }

    fn add(&mut self, place: &str, set: Value) {
        let name = field(&set, "name").as_str().unwrap_or_default();
        let known = self.by_name.entry(name.to_owned()).or_default();
        match known.iter_mut().find(|known| known.set == set) {
            Some(known) => known.nodes.push(place.to_owned()),
            None => known.push(SetOnNodes {
                nodes: vec![place.to_owned()],
                set,
            }),
        }
    }

    /// The sets of a name, as rules have it.
    pub(super) fn of(&self, name: &str) -> &[SetOnNodes] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }
}

/// All sets of an ovn-writer.
async fn sets(target: &Target, filter: Option<&str>) -> anyhow::Result<Vec<Value>> {
    let (mut sets, mut after) = (Vec::new(), None::<String>);
    loop {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(filter.map(|filter| ("filter", filter)));
        query.extend_pairs(after.map(|after| ("after", after)));
        let path = format!("/sets.json?{}", query.finish());
        let mut page: Value = target.ask(&path).await?;
        if let Value::Array(more) = page.get_mut("sets").map_or(Value::Null, Value::take) {
            sets.extend(more);
        }
        match field(&page, "next").as_str() {
            Some(last) => after = Some(last.to_owned()),
            None => return Ok(sets),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nodes_with_the_same_set_are_together() {
        let mut index = SetIndex::default();
        let set =
            |addresses: &[&str]| json!({"name": "a.test.", "set": "a1", "addresses": addresses});
        index.add("one", set(&["192.0.2.1"]));
        index.add("two", set(&[]));
        index.add("three", set(&["192.0.2.1"]));
        let nodes: Vec<_> = index.of("a.test.").iter().map(|it| &it.nodes).collect();
        assert_eq!(nodes, [&vec!["one", "three"], &vec!["two"]]);
        assert!(index.of("b.test.").is_empty());
    }
}
