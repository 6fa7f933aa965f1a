//! Rows of `NAT`, which refer to address sets by their `_uuid`, and since OVN 24.03 in `match` by name.

use uuid::Uuid;

use super::rule::{SetName, SetNames};
use ovsdb_replica::{
    Atom, BaseType, Column, ColumnError, ColumnProblem, ColumnType, Datum, Record, Row,
    value::TypeError,
};

const ALLOWED: &str = "allowed_ext_ips";
const EXEMPTED: &str = "exempted_ext_ips";
const MATCH: &str = "match";

/// A row, and of it the address sets that it refers to.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Nat(NatKey);

/// By what rows are found.
#[derive(Clone, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct NatKey {
    /// The address sets that they refer to by their rows.
    pub rows: NatSets,
    /// Those that they name.
    pub names: SetNames,
}

impl NatKey {
    /// The columns that refer to this address set, which may have a row.
    pub fn columns(&self, set: &SetName, row: Option<Uuid>) -> Vec<&'static str> {
        let rows = self.rows.0.into_iter().zip([ALLOWED, EXEMPTED]);
        let by_row = rows.filter(|(of, _)| of.is_some() && *of == row);
        let by_name = self.names.iter().filter(|(name, _)| name == set);
        let by_row = by_row.map(|(_, column)| column);
        by_row.chain(by_name.map(|_| MATCH)).collect()
    }
}

/// `allowed_ext_ips` and `exempted_ext_ips`.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct NatSets([Option<Uuid>; 2]);

impl NatSets {
    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = Uuid> {
        self.0.into_iter().flatten()
    }
}

impl Record for Nat {
    const TABLE: &'static str = "NAT";
    const COLUMNS: &'static [Column] = &[
        Column::optional(ALLOWED, ColumnType::Optional(BaseType::Uuid)),
        Column::optional(EXEMPTED, ColumnType::Optional(BaseType::Uuid)),
        Column::optional(MATCH, ColumnType::One(BaseType::String)),
    ];
    type Key = NatKey;

    fn read(columns: Row) -> Result<Self, ColumnError> {
        let mut nat = Self::default();
        nat.modify(columns)?;
        Ok(nat)
    }

    fn modify(&mut self, difference: Row) -> Result<(), ColumnError> {
        let [allowed, exempted] = &mut self.0.rows.0;
        for (column, value) in difference {
            // A column of one element at most comes anew.
            let read = match column.as_str() {
                ALLOWED => at_most_one(value).map(|set| *allowed = set),
                EXEMPTED => at_most_one(value).map(|set| *exempted = set),
                MATCH => (value.into_string()).map(|text| self.0.names = SetNames::of(&text)),
                _ => return Err(ColumnProblem::Unknown.of(column)),
            };
            read.map_err(|problem| ColumnProblem::from(problem).of(column))?;
        }
        Ok(())
    }

    fn key(&self) -> Option<NatKey> {
        (self.0 != NatKey::default()).then(|| self.0.clone())
    }
}

fn at_most_one(value: Datum) -> Result<Option<Uuid>, TypeError> {
    let mut atoms = value.into_set()?.into_iter();
    match (atoms.next(), atoms.next()) {
        (None, _) => Ok(None),
        (Some(Atom::Uuid(uuid)), None) => Ok(Some(uuid)),
        _ => Err(TypeError("the uuid of a row, or none")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_known_by_their_uuid() {
        let row = |json| serde_json::from_value::<Row>(json).unwrap();
        let uuids = [Uuid::from_u128(1), Uuid::from_u128(2)];
        let datum = |uuid: Uuid| serde_json::json!(["uuid", uuid]);
        let mut nat = Nat::read(row(serde_json::json!({ALLOWED: datum(uuids[0])}))).unwrap();
        let rows = |nat: &Nat| nat.key().unwrap().rows.iter().collect::<Vec<_>>();
        assert_eq!(rows(&nat), uuids[..1]);
        nat.modify(row(serde_json::json!({EXEMPTED: datum(uuids[1])})))
            .unwrap();
        assert_eq!(rows(&nat), uuids);
        nat.modify(row(serde_json::json!({MATCH: "ip4.dst == $a7"})))
            .unwrap();
        let key = nat.key().unwrap();
        assert_eq!(key.columns(&"a7".into(), Some(uuids[1])), [EXEMPTED, MATCH]);
        assert!(key.columns(&"a8".into(), None).is_empty());
        let empty = serde_json::json!(["set", []]);
        nat.modify(row(
            serde_json::json!({ALLOWED: empty, EXEMPTED: empty, MATCH: ""}),
        ))
        .unwrap();
        assert_eq!(nat.key(), None);
        for json in [
            serde_json::json!({ALLOWED: "x"}),
            serde_json::json!({ALLOWED: ["set", [datum(uuids[0]), datum(uuids[1])]]}),
            serde_json::json!({"colour": "red"}),
        ] {
            assert!(Nat::read(row(json)).is_err());
        }
    }
}
