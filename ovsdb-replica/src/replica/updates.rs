//! Updates of rows as servers send them: `<table-updates2>` of ovsdb-server(7).

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;
use uuid::Uuid;

/// The changes of rows per table, in the order of the message, borrowed from it.
#[derive(Debug)]
pub struct TableUpdates<'a>(pub(crate) Vec<(String, RowUpdates<'a>)>);

/// The changes of rows of one table.
pub(crate) type RowUpdates<'a> = Pairs<Uuid, RowUpdate<'a>>;

/// The change of one row: `<row-update2>`. The texts are JSON objects of columns.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RowUpdate<'a> {
    /// The row was inserted, or existed at the start.
    #[serde(borrow, alias = "initial")]
    Insert(&'a RawValue),
    /// The row changed by this difference.
    #[serde(borrow)]
    Modify(&'a RawValue),
    /// The row was deleted.
    Delete(()),
}

impl<'a> TableUpdates<'a> {
    /// Parses the differences of `update3`, and the rows of the reply to `monitor_cond_since`.
    ///
    /// # Errors
    /// Any other JSON.
    pub fn read_differences(json: &'a RawValue) -> Result<Self, serde_json::Error> {
        let Pairs(tables) = serde_json::from_str(json.get())?;
        Ok(Self(tables))
    }
}

/// The members of a JSON object in their order; a repeated name loses no value.
#[derive(Debug)]
pub(crate) struct Pairs<K, V>(pub(super) Vec<(K, V)>);

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
