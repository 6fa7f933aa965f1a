//! Rows of `NAT`. They refer to address sets by their `_uuid`, and since OVN 24.03 by name in `match`.

use uuid::Uuid;

use super::rule::{SetName, SetNames};
use ovsdb_replica::{
    BaseType, Column, ColumnProblem, ColumnType, Datum, Record, columns::ColumnValue,
};

const ALLOWED: &str = "allowed_ext_ips";
const EXEMPTED: &str = "exempted_ext_ips";
const MATCH: &str = "match";

/// A row, reduced to its references to address sets.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Nat(NatKey);

/// The key of a row.
#[derive(Clone, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct NatKey {
    /// `allowed_ext_ips` and `exempted_ext_ips`: the rows of address sets.
    pub rows: [Option<Uuid>; 2],
    /// The address sets that it names.
    pub names: SetNames,
}

impl NatKey {
    /// The columns that refer to this address set, which may have a row.
    pub fn columns(&self, set: &SetName, row: Option<Uuid>) -> Vec<&'static str> {
        let rows = self.rows.into_iter().zip([ALLOWED, EXEMPTED]);
        let by_row = rows.filter(|(of, _)| of.is_some() && *of == row);
        let by_name = self.names.iter().filter(|(name, _)| name == set);
        let by_row = by_row.map(|(_, column)| column);
        by_row.chain(by_name.map(|_| MATCH)).collect()
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

    fn modify_column(&mut self, column: &str, difference: Datum) -> Result<(), ColumnProblem> {
        let [allowed, exempted] = &mut self.0.rows;
        match column {
            ALLOWED => allowed.modify(difference)?,
            EXEMPTED => exempted.modify(difference)?,
            MATCH => self.0.names = SetNames::of(&difference.into_string()?),
            _ => return Err(ColumnProblem::Unknown),
        }
        Ok(())
    }

    fn key(&self) -> Option<NatKey> {
        (self.0 != NatKey::default()).then(|| self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use ovsdb_replica::Row;

    use super::*;

    #[test]
    fn sets_are_known_by_their_uuid() {
        let row = |json| serde_json::from_value::<Row>(json).unwrap();
        let uuids = [Uuid::from_u128(1), Uuid::from_u128(2)];
        let datum = |uuid: Uuid| serde_json::json!(["uuid", uuid]);
        let mut nat = Nat::read(row(serde_json::json!({ALLOWED: datum(uuids[0])}))).unwrap();
        let rows = |nat: &Nat| {
            nat.key()
                .unwrap()
                .rows
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
        };
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
