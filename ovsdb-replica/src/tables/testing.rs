//! Records for unit tests.

use std::collections::{BTreeMap, BTreeSet};

use crate::{BaseType, Column, ColumnProblem, ColumnType, Datum, Record, columns::ColumnValue};

/// A row with a column of each kind.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Book {
    pub(crate) title: String,
    pub(crate) authors: BTreeSet<String>,
    pub(crate) ids: BTreeMap<String, String>,
}

impl Record for Book {
    const TABLE: &'static str = "Book";
    const COLUMNS: &'static [Column] = &[
        Column::required("title", ColumnType::One(BaseType::String)),
        Column::required("authors", ColumnType::Set(BaseType::String)),
        Column::required("ids", ColumnType::Map(BaseType::String, BaseType::String)),
    ];
    type Key = String;

    fn modify_column(&mut self, column: &str, difference: Datum) -> Result<(), ColumnProblem> {
        match column {
            "title" => self.title = difference.into_string()?.into(),
            "authors" => self.authors.modify(difference)?,
            "ids" => self.ids.modify(difference)?,
            _ => return Err(ColumnProblem::Unknown),
        }
        Ok(())
    }

    fn key(&self) -> Option<String> {
        (!self.title.is_empty()).then(|| self.title.clone())
    }

    fn counts(&self) -> bool {
        self.authors.len() > 1
    }
}
