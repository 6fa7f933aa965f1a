//! Database schemas (RFC 7047 section 3.2), as far as a client must check them before it relies on them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// What a database holds: the answer to `get_schema`.
#[derive(Clone, Debug, Deserialize)]
pub struct Schema {
    /// The name of the database.
    pub name: String,
    /// The version of its schema, `x.y.z`.
    pub version: String,
    tables: BTreeMap<String, Table>,
}

#[derive(Clone, Debug, Deserialize)]
struct Table {
    columns: BTreeMap<String, Column>,
}

#[derive(Clone, Debug, Deserialize)]
struct Column {
    #[serde(rename = "type")]
    kind: Value,
}

/// The types of columns that a client can require.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ColumnType {
    /// Exactly one string.
    String,
    /// Exactly one boolean.
    Boolean,
    /// A set of strings of any size.
    StringSet,
    /// A map of strings to strings of any size.
    StringMap,
}

/// A column without which the client cannot work.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RequiredColumn {
    /// The name of the table.
    pub table: &'static str,
    /// The name of the column.
    pub column: &'static str,
    /// What it must hold.
    pub kind: ColumnType,
}

/// The database is not one that the client can work with.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SchemaError {
    /// There is no such table or column.
    #[error("the schema of {database} {version} has no column {table}.{column}")]
    Missing {
        /// Which database.
        database: String,
        /// Which version of its schema.
        version: String,
        /// Which table.
        table: &'static str,
        /// Which column.
        column: &'static str,
    },
    /// The column holds something else.
    #[error(
        "in the schema of {database} {version}, {table}.{column} is not {expected:?} but {found}"
    )]
    Type {
        /// Which database.
        database: String,
        /// Which version of its schema.
        version: String,
        /// Which table.
        table: &'static str,
        /// Which column.
        column: &'static str,
        /// What it must hold.
        expected: ColumnType,
        /// Its type in the schema's own words.
        found: String,
    },
}

impl Schema {
    /// Checks that the columns are there and hold what they must.
    ///
    /// # Errors
    /// [`SchemaError`] for the first that is not.
    pub fn require(&self, columns: &[RequiredColumn]) -> Result<(), SchemaError> {
        for required in columns {
            let &RequiredColumn {
                table,
                column,
                kind,
            } = required;
            let (database, version) = (self.name.clone(), self.version.clone());
            let found = self.tables.get(table).and_then(|t| t.columns.get(column));
            let Some(found) = found else {
                return Err(SchemaError::Missing {
                    database,
                    version,
                    table,
                    column,
                });
            };
            if ColumnType::of(&found.kind) != Some(kind) {
                let found = found.kind.to_string();
                return Err(SchemaError::Type {
                    database,
                    version,
                    table,
                    column,
                    expected: kind,
                    found,
                });
            }
        }
        Ok(())
    }
}

impl ColumnType {
    /// The type that `kind` of a schema describes, if it is one of these.
    fn of(kind: &Value) -> Option<Self> {
        let base = |value: Option<&Value>| {
            let value = value?;
            let named = value.as_str().or_else(|| value.get("type")?.as_str())?;
            Some(named.to_owned())
        };
        if kind.is_string() || kind.get("key").is_none() {
            return Self::scalar(kind.as_str()?);
        }
        let (key, value) = (base(kind.get("key"))?, base(kind.get("value")));
        let bound = |name| kind.get(name).cloned().unwrap_or(Value::from(1));
        match (key.as_str(), value.as_deref(), bound("min"), bound("max")) {
            ("string", None, _, max) if max == "unlimited" => Some(Self::StringSet),
            ("string", Some("string"), _, max) if max == "unlimited" => Some(Self::StringMap),
            (scalar, None, min, max) if min == 1 && max == 1 => Self::scalar(scalar),
            _ => None,
        }
    }

    fn scalar(name: &str) -> Option<Self> {
        match name {
            "string" => Some(Self::String),
            "boolean" => Some(Self::Boolean),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Schema {
        serde_json::from_value(serde_json::json!({
            "name": "Library", "version": "1.2.3", "tables": {"Book": {"columns": {
                "title": {"type": "string"},
                "lent": {"type": {"key": {"type": "boolean"}}},
                "authors": {"type": {"key": "string", "min": 0, "max": "unlimited"}},
                "ids": {"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}},
                "pages": {"type": {"key": "integer", "min": 0, "max": 1}},
            }}}
        }))
        .unwrap()
    }

    fn require(column: &'static str, kind: ColumnType) -> Result<(), String> {
        let required = RequiredColumn {
            table: "Book",
            column,
            kind,
        };
        schema()
            .require(&[required])
            .map_err(|error| error.to_string())
    }

    #[test]
    fn columns_of_the_right_type_are_enough() {
        assert_eq!(require("title", ColumnType::String), Ok(()));
        assert_eq!(require("lent", ColumnType::Boolean), Ok(()));
        assert_eq!(require("authors", ColumnType::StringSet), Ok(()));
        assert_eq!(require("ids", ColumnType::StringMap), Ok(()));
    }

    #[test]
    fn a_missing_or_different_column_is_named_in_one_line() {
        assert_eq!(
            require("isbn", ColumnType::String).unwrap_err(),
            "the schema of Library 1.2.3 has no column Book.isbn"
        );
        assert_eq!(
            require("pages", ColumnType::StringSet).unwrap_err(),
            "in the schema of Library 1.2.3, Book.pages is not StringSet but \
             {\"key\":\"integer\",\"max\":1,\"min\":0}"
        );
    }
}
