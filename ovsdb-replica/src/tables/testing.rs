//! Records for unit tests.

use std::collections::BTreeSet;

use crate::{
    BaseType, Column, ColumnError, ColumnProblem, ColumnType, Condition, Record, Row,
    replica::{toggle, toggle_pair},
    value::TypeError,
};

/// A row with a column of each kind.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Book {
    pub(crate) title: String,
    pub(crate) authors: BTreeSet<String>,
    pub(crate) ids: Vec<(String, String)>,
}

impl Record for Book {
    const TABLE: &'static str = "Book";
    const COLUMNS: &'static [Column] = &[
        Column::required("title", ColumnType::One(BaseType::String)),
        Column::required("authors", ColumnType::Set(BaseType::String)),
        Column::required("ids", ColumnType::Map(BaseType::String, BaseType::String)),
    ];
    type Key = String;

    fn conditions() -> Vec<Condition> {
        vec![Condition::has_pair("ids", "k", "1")]
    }

    fn read(columns: Row) -> Result<Self, ColumnError> {
        let mut book = Self::default();
        book.modify(columns)?;
        Ok(book)
    }

    fn modify(&mut self, difference: Row) -> Result<(), ColumnError> {
        for (column, value) in difference {
            let problem = |problem: TypeError| ColumnProblem::from(problem).of(column.clone());
            match column.as_str() {
                "title" => self.title = value.into_string().map_err(problem)?.into(),
                "authors" => {
                    for atom in value.into_set().map_err(problem)? {
                        toggle(
                            &mut self.authors,
                            atom.into_string().map_err(problem)?.into(),
                        );
                    }
                }
                "ids" => {
                    for (key, value) in value.into_string_map().map_err(problem)? {
                        toggle_pair(&mut self.ids, key.into(), value.into());
                    }
                }
                _ => return Err(ColumnProblem::Unknown.of(column)),
            }
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

/// A row with one column.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Shelf(pub(crate) String);

impl Record for Shelf {
    const TABLE: &'static str = "Shelf";
    const COLUMNS: &'static [Column] =
        &[Column::optional("place", ColumnType::One(BaseType::String))];
    type Key = String;

    fn read(columns: Row) -> Result<Self, ColumnError> {
        let mut shelf = Self::default();
        shelf.modify(columns)?;
        Ok(shelf)
    }

    fn modify(&mut self, difference: Row) -> Result<(), ColumnError> {
        for (column, value) in difference {
            let place = value.into_string();
            let place = place.map_err(|problem| ColumnProblem::from(problem).of(column))?;
            self.0 = place.into();
        }
        Ok(())
    }

    fn key(&self) -> Option<String> {
        Some(self.0.clone())
    }
}
