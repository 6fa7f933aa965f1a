//! What clients asked for: names, how often and by how many, and the addresses of the answers.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashMap},
    net::IpAddr,
    sync::Arc,
};

use proto::facts::ClientAnswer;

/// The most names of a window. When there are twice as many, those asked for less often are forgotten.
const MOST_NAMES: usize = 10_000;

/// The most clients, and the most addresses, that are kept of a name.
const MOST_OF_NAME: usize = 1_000;

/// A name that clients asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Asked {
    /// In lower case, without the trailing dot.
    pub(super) name: String,
    /// The number of answers; too high by at most [`Window::error`].
    pub(super) count: u64,
    /// The pods, or the addresses of clients.
    pub(super) by: BTreeSet<Arc<str>>,
    pub(super) addresses: BTreeSet<IpAddr>,
    /// The guard of the collector that refuses other addresses of the answers: no set gets those.
    pub(super) guard: Option<String>,
}

impl Asked {
    /// How often it was asked for, in words.
    pub(super) fn times(&self) -> String {
        let plural = |count: u64| if count == 1 { "" } else { "s" };
        let (count, by) = (self.count, self.by.len());
        let of_clients = plural(by as u64);
        format!("{count} answer{} to {by} client{of_clients}", plural(count))
    }
}

/// The names of a window of time.
#[derive(Debug, Default)]
pub(super) struct Window {
    names: HashMap<String, Asked>,
    /// The highest count of a name that was forgotten: a name that comes back begins with it.
    error: u64,
}

impl Window {
    /// Counts an answer to a client.
    pub(super) fn add(&mut self, answer: ClientAnswer, by: &Arc<str>) {
        if self.names.len() >= 2 * MOST_NAMES && !self.names.contains_key(&answer.name) {
            self.forget();
        }
        let error = self.error;
        let entry = self.names.entry(answer.name);
        let name = entry.key().clone();
        let asked = entry.or_insert_with(|| Asked {
            name,
            count: error,
            ..Asked::default()
        });
        asked.count += 1;
        if asked.by.len() < MOST_OF_NAME {
            asked.by.insert(Arc::clone(by));
        }
        let room = MOST_OF_NAME.saturating_sub(asked.addresses.len());
        asked
            .addresses
            .extend(answer.addresses.into_iter().take(room));
        asked.guard = answer.guard.or(asked.guard.take());
    }

    /// The names, those asked for most often first.
    pub(super) fn names(self) -> Vec<Asked> {
        sorted(self.names)
    }

    /// By how much a count may be too high; zero as long as nothing was forgotten.
    pub(super) fn error(&self) -> u64 {
        self.error
    }

    /// Keeps the names asked for most often (the space-saving algorithm, for half of the names at once).
    fn forget(&mut self) {
        let names = sorted(std::mem::take(&mut self.names));
        // The least count of those that are kept is that of the next one, or more.
        self.error = names.last().map_or(0, |asked| asked.count);
        let names = names.into_iter().map(|asked| (asked.name.clone(), asked));
        self.names = names.collect();
    }
}

fn sorted(names: HashMap<String, Asked>) -> Vec<Asked> {
    let mut names: Vec<Asked> = names.into_values().collect();
    names.sort_unstable_by(|one, other| {
        (Reverse(one.count), &one.name).cmp(&(Reverse(other.count), &other.name))
    });
    names.truncate(MOST_NAMES);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(window: &mut Window, name: &str, by: &str) {
        let answer = ClientAnswer {
            name: name.to_owned(),
            client: None,
            addresses: vec!["192.0.2.1".parse().unwrap()],
            guard: None,
        };
        window.add(answer, &by.into());
    }

    #[test]
    fn flood_of_names_leaves_the_frequent_ones() {
        let mut window = Window::default();
        for i in 0..200_000 {
            add(&mut window, &format!("n{i}.test"), "one");
            if i % 100 == 0 {
                add(&mut window, "frequent.test", "one");
            }
            assert!(window.names.len() <= 2 * MOST_NAMES);
        }
        let error = window.error();
        assert!(error > 0);
        let names = window.names();
        assert_eq!(names.len(), MOST_NAMES);
        assert_eq!(names[0].name, "frequent.test");
        assert!((2_000..=2_000 + error).contains(&names[0].count));
    }
}
