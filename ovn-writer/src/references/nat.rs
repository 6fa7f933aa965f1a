//! Rows of `NAT`, which refer to address sets by their `_uuid`.

use uuid::Uuid;

use crate::ovsdb::{
    Atom, BaseType, Column, ColumnError, ColumnProblem, ColumnType, Datum, Record, Row,
    value::TypeError,
};

const ALLOWED: &str = "allowed_ext_ips";
const EXEMPTED: &str = "exempted_ext_ips";

/// A row, and of it the address sets that it refers to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Nat(NatSets);

/// `allowed_ext_ips` and `exempted_ext_ips`.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct NatSets([Option<Uuid>; 2]);

impl NatSets {
    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = Uuid> {
        self.0.into_iter().flatten()
    }

    /// The columns that refer to this address set.
    pub fn columns(&self, set: Uuid) -> impl Iterator<Item = &'static str> {
        let columns = self.0.into_iter().zip([ALLOWED, EXEMPTED]);
        columns.filter_map(move |(of, column)| (of == Some(set)).then_some(column))
    }
}

impl Record for Nat {
    const TABLE: &'static str = "NAT";
    const COLUMNS: &'static [Column] = &[
        Column::optional(ALLOWED, ColumnType::Set(BaseType::Uuid)),
        Column::optional(EXEMPTED, ColumnType::Set(BaseType::Uuid)),
    ];
    type Key = NatSets;

    fn read(columns: Row) -> Result<Self, ColumnError> {
        let mut nat = Self::default();
        nat.modify(columns)?;
        Ok(nat)
    }

    fn modify(&mut self, difference: Row) -> Result<(), ColumnError> {
        let [allowed, exempted] = &mut self.0.0;
        for (column, value) in difference {
            let slot = match column.as_str() {
                ALLOWED => &mut *allowed,
                EXEMPTED => &mut *exempted,
                _ => return Err(ColumnProblem::Unknown.of(column)),
            };
            // A column of one element at most comes anew.
            *slot =
                at_most_one(value).map_err(|problem| ColumnProblem::from(problem).of(column))?;
        }
        Ok(())
    }

    fn key(&self) -> Option<NatSets> {
        (self.0 != NatSets::default()).then_some(self.0)
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
        assert_eq!(nat.key().unwrap().iter().collect::<Vec<_>>(), uuids[..1]);
        nat.modify(row(serde_json::json!({EXEMPTED: datum(uuids[1])})))
            .unwrap();
        assert_eq!(nat.key().unwrap().iter().collect::<Vec<_>>(), uuids);
        let empty = serde_json::json!(["set", []]);
        nat.modify(row(serde_json::json!({ALLOWED: empty, EXEMPTED: empty})))
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
