//! The `_Server` database (ovsdb-server(5)): what a server says of the databases that it serves.

use super::{
    error::Error,
    replica::{ColumnError, ColumnProblem, Record, Replica},
    value::Row,
};

/// The name of the database.
pub(super) const SERVER_DATABASE: &str = "_Server";

/// The columns that are monitored. `schema` is not: it is long, and a conversion cancels the monitors anyway.
pub(super) const COLUMNS: [&str; 2] = ["name", "connected"];

/// A row of the table `Database`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct ServedDatabase {
    /// The name of the database.
    pub(super) name: String,
    /// Whether the server is in touch with its cluster; always true of a standalone one.
    pub(super) connected: bool,
}

impl Record for ServedDatabase {
    const TABLE: &'static str = "Database";
    type Key = String;

    fn read(columns: Row) -> Result<Self, ColumnError> {
        let mut database = Self::default();
        database.modify(columns)?;
        Ok(database)
    }

    fn modify(&mut self, difference: Row) -> Result<(), ColumnError> {
        for (column, value) in difference {
            let read = match column.as_str() {
                "name" => value.into_string().map(|name| self.name = name),
                "connected" => value
                    .into_boolean()
                    .map(|connected| self.connected = connected),
                _ => return Err(ColumnProblem::Unknown.of(column)),
            };
            read.map_err(|problem| ColumnProblem::from(problem).of(column))?;
        }
        Ok(())
    }

    fn key(&self) -> Option<String> {
        Some(self.name.clone())
    }
}

/// Whether the server can be worked with.
///
/// # Errors
/// [`Error::NotServed`] if it does not have the database, or has lost its cluster.
pub(super) fn check(server: &Replica<ServedDatabase>, database: &str) -> Result<(), Error> {
    let served = || server.with_key(&database.to_owned());
    match served().any(|(_, row)| row.connected) {
        true => Ok(()),
        false => Err(Error::NotServed {
            served: served().next().is_some(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_its_cluster_is_left() {
        let said = |json: &str| {
            let mut server = Replica::default();
            let uuid = "b487b549-9d01-481e-aaf8-d194f26edc55";
            let updates = format!(r#"{{"Database":{{"{uuid}":{{"initial":{json}}}}}}}"#);
            server
                .apply(serde_json::from_str(&updates).unwrap())
                .unwrap();
            check(&server, "Library").map_err(|error| error.to_string())
        };
        let good = r#"{"name":"Library","connected":true}"#;
        assert_eq!(said(good), Ok(()));
        // Columns that have their default are left out.
        let cut = r#"{"name":"Library"}"#;
        assert_eq!(
            said(cut),
            Err("the server is not connected to its cluster".into())
        );
        let other = r#"{"name":"Other","connected":true}"#;
        assert_eq!(
            said(other),
            Err("the server does not serve the database".into())
        );
    }
}
