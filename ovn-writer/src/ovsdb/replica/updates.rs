//! Updates of rows as servers send them: `<table-updates>` of RFC 7047 and `<table-updates2>` of ovsdb-server(7).

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::ovsdb::value::Object;

/// What happened to which rows of which tables, in the order of the message, borrowed from it.
#[derive(Debug)]
pub struct TableUpdates<'a>(pub(in crate::ovsdb) Vec<(String, RowUpdates<'a>)>);

/// What happened to which rows of one table.
#[derive(Debug)]
pub struct RowUpdates<'a>(pub(super) Vec<(Uuid, RowUpdate<'a>)>);

/// What happened to one row. The texts are objects of columns.
#[derive(Debug)]
pub(super) enum RowUpdate<'a> {
    /// It came, or is there from the beginning.
    Insert(&'a RawValue),
    /// It changed by this difference.
    Modify(&'a RawValue),
    /// It changed, and is now this.
    Replace(&'a RawValue),
    /// It is gone.
    Delete,
}

impl<'a> TableUpdates<'a> {
    /// Reads the differences of `update2` and `update3`, and the first rows of `monitor_cond` and `monitor_cond_since`.
    ///
    /// # Errors
    /// Anything else.
    pub fn read_differences(json: &'a RawValue) -> Result<Self, serde_json::Error> {
        Self::read::<Difference<'a>>(json)
    }

    /// Reads the whole rows of `update`, and the first rows of `monitor`.
    ///
    /// # Errors
    /// Anything else.
    pub fn read_rows(json: &'a RawValue) -> Result<Self, serde_json::Error> {
        Self::read::<Object<OldAndNew<'a>>>(json)
    }

    fn read<T>(json: &'a RawValue) -> Result<Self, serde_json::Error>
    where
        T: Deserialize<'a> + TryInto<RowUpdate<'a>, Error = serde_json::Error>,
    {
        let rows = |Pairs(rows): Pairs<Uuid, T>| {
            rows.into_iter()
                .map(|(uuid, update)| Ok((uuid, update.try_into()?)))
                .collect::<Result<_, serde_json::Error>>()
        };
        let Pairs(tables) = serde_json::from_str::<Pairs<String, Pairs<Uuid, T>>>(json.get())?;
        tables
            .into_iter()
            .map(|(table, updates)| Ok((table, RowUpdates(rows(updates)?))))
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

/// `<row-update2>`.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Difference<'a> {
    #[serde(borrow)]
    Initial(&'a RawValue),
    #[serde(borrow)]
    Insert(&'a RawValue),
    #[serde(borrow)]
    Modify(&'a RawValue),
    Delete(()),
}

impl<'a> TryFrom<Difference<'a>> for RowUpdate<'a> {
    type Error = serde_json::Error;

    fn try_from(update: Difference<'a>) -> Result<Self, Self::Error> {
        Ok(match update {
            Difference::Initial(row) | Difference::Insert(row) => Self::Insert(row),
            Difference::Modify(row) => Self::Modify(row),
            Difference::Delete(()) => Self::Delete,
        })
    }
}

/// `<row-update>`: a row that came has no `old`, one that went no `new`, one that changed has the columns that changed as they
/// were and all columns as they are.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OldAndNew<'a> {
    #[serde(borrow)]
    old: Option<&'a RawValue>,
    #[serde(borrow)]
    new: Option<&'a RawValue>,
}

impl<'a> TryFrom<Object<OldAndNew<'a>>> for RowUpdate<'a> {
    type Error = serde_json::Error;

    fn try_from(Object(update): Object<OldAndNew<'a>>) -> Result<Self, Self::Error> {
        use serde::de::Error as _;
        match (update.old, update.new) {
            (None, Some(new)) => Ok(Self::Insert(new)),
            (Some(_), Some(new)) => Ok(Self::Replace(new)),
            (Some(_), None) => Ok(Self::Delete),
            (None, None) => Err(serde_json::Error::custom("a row neither old nor new")),
        }
    }
}

/// The members of a JSON object in their order, none lost when a name comes twice.
#[derive(Debug)]
struct Pairs<K, V>(Vec<(K, V)>);

impl<'de, K: Deserialize<'de>, V: Deserialize<'de>> Deserialize<'de> for Pairs<K, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairsVisitor<K, V>(PhantomData<(K, V)>);

        impl<'de, K: Deserialize<'de>, V: Deserialize<'de>> Visitor<'de> for PairsVisitor<K, V> {
            type Value = Pairs<K, V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }

        deserializer.deserialize_map(PairsVisitor(PhantomData))
    }
}
