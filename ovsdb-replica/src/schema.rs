//! Database schemas (RFC 7047 section 3.2): the parts that a client must check before it relies on them.

use std::{collections::BTreeMap, fmt};

use serde::Deserialize;
use serde_json::Value;

/// The structure of a database: the answer to `get_schema`.
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
    columns: BTreeMap<String, ColumnSchema>,
}

#[derive(Clone, Debug, Deserialize)]
struct ColumnSchema {
    #[serde(rename = "type")]
    kind: Value,
}

/// The type of one element (RFC 7047 section 3.2, `<atomic-type>`).
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum BaseType {
    /// A 64-bit integer.
    Integer,
    /// A real number.
    Real,
    /// `true` or `false`.
    Boolean,
    /// Text.
    String,
    /// The `_uuid` of a row; the row may or may not exist.
    Uuid,
}

/// The type of a column (RFC 7047 section 3.2, `<type>`), without limits of values and size.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ColumnType {
    /// Exactly one element.
    One(BaseType),
    /// One element or none. An update of it is the new value, not a difference.
    Optional(BaseType),
    /// A set that may have more than one element.
    Set(BaseType),
    /// A map that may have more than one pair.
    Map(BaseType, BaseType),
}

/// A column that a client reads.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Column {
    name: &'static str,
    kind: ColumnType,
    required: bool,
}

impl Column {
    /// A column that the client needs.
    pub const fn required(name: &'static str, kind: ColumnType) -> Self {
        Self {
            name,
            kind,
            required: true,
        }
    }

    /// A column that older schemas lack: every row then has its default.
    pub const fn optional(name: &'static str, kind: ColumnType) -> Self {
        Self {
            name,
            kind,
            required: false,
        }
    }
}

/// The database does not fit the client's tables.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SchemaError {
    /// The table or column does not exist.
    #[error("the schema of {schema} has no column {table}.{column}")]
    Missing {
        /// The name and the version of the schema.
        schema: String,
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
    },
    /// The column has another type.
    #[error("in the schema of {schema}, {table}.{column} is not {expected} but {found}")]
    Type {
        /// The name and the version of the schema.
        schema: String,
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// The required type.
        expected: ColumnType,
        /// Its type in the schema's own words.
        found: String,
    },
}

impl Schema {
    /// The existing ones of these columns; `None` if the table is missing and no column is required.
    ///
    /// # Errors
    /// [`SchemaError`] for the first required column that is missing, or a column of another type.
    pub fn columns(
        &self,
        table: &'static str,
        wanted: &'static [Column],
    ) -> Result<Option<Vec<&'static str>>, SchemaError> {
        let columns = self.tables.get(table).map(|table| &table.columns);
        let schema = || format!("{} {}", self.name, self.version);
        let mut present = Vec::with_capacity(wanted.len());
        for wanted in wanted {
            let column = wanted.name;
            match columns.and_then(|columns| columns.get(column)) {
                Some(found) if ColumnType::of(&found.kind) == Some(wanted.kind) => {
                    present.push(column);
                }
                Some(found) => {
                    return Err(SchemaError::Type {
                        schema: schema(),
                        table,
                        column,
                        expected: wanted.kind,
                        found: found.kind.to_string(),
                    });
                }
                None if wanted.required => {
                    let schema = schema();
                    return Err(SchemaError::Missing {
                        schema,
                        table,
                        column,
                    });
                }
                None => {}
            }
        }
        Ok(columns.map(|_| present))
    }
}

impl fmt::Display for BaseType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_ascii_lowercase())
    }
}

impl ColumnType {
    /// The type that `kind` of a schema describes (RFC 7047 section 3.2, `<type>`), if it is one.
    fn of(kind: &Value) -> Option<Self> {
        let base = |value: &Value| BaseType::deserialize(value.get("type").unwrap_or(value)).ok();
        let Some(key) = kind.get("key") else {
            return base(kind).map(Self::One);
        };
        let is_one = |name| kind.get(name).is_none_or(|bound| *bound == 1);
        match (kind.get("value"), is_one("max")) {
            (None, true) if is_one("min") => base(key).map(Self::One),
            (None, true) => base(key).map(Self::Optional),
            (None, false) => base(key).map(Self::Set),
            (Some(value), false) => Some(Self::Map(base(key)?, base(value)?)),
            // No schema describes a map of at most one pair.
            (Some(_), true) => None,
        }
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(base) => write!(f, "one {base}"),
            Self::Optional(base) => write!(f, "one {base} or none"),
            Self::Set(base) => write!(f, "a set of {base}"),
            Self::Map(key, value) => write!(f, "a map of {key} to {value}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const STRINGS: ColumnType = ColumnType::Set(BaseType::String);

    fn schema() -> Schema {
        let pages = json!({"type": {"key": "integer", "min": 0, "max": 1}});
        let tables = json!({"Book": {"columns": {"pages": pages}}});
        let schema = json!({"name": "Library", "version": "1.2.3", "tables": tables});
        serde_json::from_value(schema).unwrap()
    }

    #[test]
    fn columns_of_missing_table_are_none_if_all_optional() {
        const WANTED: &[Column] = &[Column::optional("title", STRINGS)];
        assert_eq!(schema().columns("Magazine", WANTED), Ok(None));
    }

    #[test]
    fn columns_missing_or_of_other_type_are_named() {
        const MISSING: &[Column] = &[Column::required("isbn", STRINGS)];
        const DIFFERENT: &[Column] = &[Column::optional("pages", STRINGS)];
        let words = |wanted| schema().columns("Book", wanted).unwrap_err().to_string();
        assert_eq!(
            words(MISSING),
            "the schema of Library 1.2.3 has no column Book.isbn"
        );
        assert_eq!(
            words(DIFFERENT),
            "in the schema of Library 1.2.3, Book.pages is not a set of string but \
             {\"key\":\"integer\",\"max\":1,\"min\":0}"
        );
    }
}
