//! Every combination of the table in `docs/design.md`.

use std::collections::BTreeSet;

use proto::api::{DEFAULT_NETWORK_CONTROLLER, Family::V4, address_set_id, address_set_name};
use tests::wait::eventually;

use super::Fixture;
use crate::harness::STORE;

const PAGE: &str = include_str!("../../../../docs/design.md");

/// The heading of the table.
const HEADING: &str =
    "| object | rule | row | whose row | without ovn-kubernetes | beside ovn-kubernetes |";

/// The cells of the first four columns. A row that does not exist is nobody's.
const OBJECTS: [&str; 4] = ["speaks", "silent", "absent", "unknown"];
const RULES: [&str; 2] = ["yes", "no"];
const ROWS: [[&str; 2]; 4] = [
    ["no", "–"],
    ["yes", "ours"],
    ["yes", "unmarked"],
    ["yes", "another's"],
];

/// A cell of the last two columns.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Effect {
    MadeEqual,
    MadeEqualExceptForeign,
    GetsLast,
    Created,
    Deleted,
    Left,
}

impl Effect {
    fn parse(cell: &str) -> Self {
        match cell {
            "gets the addresses, loses all others" => Self::MadeEqual,
            "gets the addresses, loses those that the ovn-writer added" => {
                Self::MadeEqualExceptForeign
            }
            "gets the last addresses, loses none" => Self::GetsLast,
            "created with the last addresses" => Self::Created,
            "deleted after a minute" => Self::Deleted,
            "left as it is" => Self::Left,
            other => panic!("the table has the unknown cell {other:?}"),
        }
    }
}

/// A combination, as one name of the database.
#[derive(Debug)]
struct Case {
    name: String,
    object: &'static str,
    has_rule: bool,
    row: [&'static str; 2],
    effect: Effect,
    /// Two addresses that the object lists first, of which it loses the second; and one of another client.
    addresses: [String; 3],
}

/// The lines below the heading, cell by cell.
fn lines() -> Vec<Vec<&'static str>> {
    let (_, below) = PAGE.split_once(HEADING).expect("the page has the table");
    let lines = below
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let cells = |line: &'static str| line.trim_matches('|').split('|').map(str::trim).collect();
    lines.map(cells).collect()
}

/// Every combination. Each has exactly one line; a name whose object is unknown has no row of ours.
fn cases(is_managed: bool) -> Vec<Case> {
    let lines = lines();
    let mut cases = Vec::new();
    for object in OBJECTS {
        for rule in RULES {
            for row in ROWS {
                let wanted = [object, rule, row[0], row[1]];
                let is_of = |cell: &str, word: &str| {
                    cell == "any" || cell.split(" or ").any(|part| part == word)
                };
                let fits = |line: &&Vec<&str>| {
                    line.iter()
                        .zip(wanted)
                        .all(|(cell, word)| is_of(cell, word))
                };
                let found: Vec<_> = lines.iter().filter(fits).collect();
                if object == "unknown" && row[1] == "ours" {
                    assert!(found.is_empty(), "{wanted:?} cannot be");
                    continue;
                }
                assert_eq!(found.len(), 1, "lines for {wanted:?}: {found:?}");
                let n = cases.len();
                cases.push(Case {
                    name: format!("case{n}.example."),
                    object,
                    has_rule: rule == "yes",
                    row,
                    effect: Effect::parse(found[0][4 + usize::from(is_managed)]),
                    addresses: [1, 2, 9].map(|host| format!("10.0.{n}.{host}")),
                });
            }
        }
    }
    cases
}

impl Case {
    fn has_row(&self) -> bool {
        self.row[0] == "yes"
    }

    /// The name of its set, to which rules refer.
    fn set(&self) -> String {
        let id = address_set_id(DEFAULT_NETWORK_CONTROLLER, &self.name, V4);
        address_set_name(&id)
    }

    /// Writes the object, the row with the address of another client, and the rule.
    fn prepare(&self, fixture: &Fixture) {
        let northbound = &fixture.database.northbound;
        let [first, second, foreign] = self.addresses.each_ref().map(String::as_str);
        if self.object != "unknown" {
            fixture.store.write_status(&self.name, &[first, second]);
        }
        if self.has_rule {
            northbound.create_acls(std::slice::from_ref(&self.name), false);
        }
        if self.has_row() {
            northbound.create_set(&self.set(), &self.name, V4, foreign);
        }
        let store = match self.row[1] {
            "ours" => STORE,
            "another's" => "kube/other",
            _ => return,
        };
        let mark = format!("external_ids:ovn-writer/created=\"{store}\"");
        let args = ["set", "Address_Set", &self.set(), &mark];
        northbound.nbctl(&args).unwrap();
    }

    /// What the set has before anything is absent; `None` if there is no set.
    fn content_before(&self, is_managed: bool) -> Option<BTreeSet<String>> {
        let is_shared = self.row[1] == "another's";
        match (self.object, self.has_row()) {
            ("unknown", true) => Some(self.content([false, false, true])),
            ("unknown", false) => None,
            (_, true) => Some(self.content([true, true, is_shared])),
            (_, false) => (self.has_rule || !is_managed).then(|| self.content([true, true, false])),
        }
    }

    /// Changes the object.
    fn change_object(&self, fixture: &Fixture) {
        match self.object {
            "speaks" => fixture
                .store
                .write_status(&self.name, &[&self.addresses[0]]),
            "silent" => fixture.store.write_status(&self.name, &[]),
            "absent" => fixture.store.remove_object(&self.name),
            _ => {}
        }
    }

    /// Another client deletes the set, or adds its address and removes one of the object's. A set that may go at any
    /// moment is left to the writer.
    fn change_row(&self, fixture: &Fixture) {
        let nbctl = |args: &[&str]| fixture.database.northbound.nbctl(args).unwrap();
        let set = self.set();
        if !self.has_row() {
            nbctl(&["--if-exists", "destroy", "Address_Set", &set]);
        } else if self.effect != Effect::Deleted {
            let column = ["Address_Set", set.as_str(), "addresses"];
            let [first, _, foreign] = self.addresses.each_ref().map(|it| format!("\"{it}\""));
            let remove = [&["remove"], &column[..], &[first.as_str(), "--", "add"]].concat();
            nbctl(&[&remove[..], &column, &[foreign.as_str()]].concat());
        }
    }

    fn content_after(&self) -> Option<BTreeSet<String>> {
        let has = match self.effect {
            Effect::MadeEqual => [true, false, false],
            Effect::MadeEqualExceptForeign => [true, false, true],
            Effect::GetsLast => [true, true, true],
            Effect::Created => [true, self.object != "speaks", false],
            Effect::Deleted => return None,
            Effect::Left if !self.has_row() => return None,
            Effect::Left => [false, self.object != "unknown", true],
        };
        Some(self.content(has))
    }

    fn content(&self, has: [bool; 3]) -> BTreeSet<String> {
        let addresses = self.addresses.iter().zip(has);
        let addresses = addresses.filter(|(_, has)| *has);
        addresses.map(|(address, _)| address.clone()).collect()
    }
}

/// Waits until each case has the expected content.
async fn expect(
    fixture: &Fixture,
    cases: &[Case],
    expected: impl Fn(&Case) -> Option<BTreeSet<String>>,
) {
    eventually("every case is as the table says", async || {
        let rows = fixture.database.northbound.rows()?;
        let wrong = cases.iter().find_map(|case| {
            let mut found = rows.iter().filter(|row| row.is_of(&case.name, V4));
            let content = found.next().map(|row| row.addresses.clone());
            let is_right = content == expected(case) && found.next().is_none();
            (!is_right).then(|| format!("{case:?} has {content:?}"))
        });
        wrong.map_or(Ok(()), Err)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writer_treats_every_combination_as_table_says() {
    for is_managed in [false, true] {
        let mut fixture = Fixture::empty(is_managed).await;
        let cases = cases(is_managed);
        cases.iter().for_each(|case| case.prepare(&fixture));
        fixture.start_writer();
        expect(&fixture, &cases, |case| case.content_before(is_managed)).await;
        cases.iter().for_each(|case| case.change_object(&fixture));
        fixture.fence().await;
        cases.iter().for_each(|case| case.change_row(&fixture));
        expect(&fixture, &cases, Case::content_after).await;
        fixture.outlast().await;
        expect(&fixture, &cases, Case::content_after).await;
        // A new process knows only the store and the database.
        fixture.kill_writer().await;
        fixture.start_writer();
        fixture.outlast().await;
        expect(&fixture, &cases, Case::content_after).await;
    }
}
