//! The whole program: its flags, a store in a folder, a real server, and `kill -9`.

mod absence;
mod drift;
mod soak;

use std::path::Path;

use tests::{programs::Program, store::Store, wait::eventually};

use crate::harness::Database;

/// The store, the ovn-writer and the database. Fields are in the order in which they are dropped.
struct World {
    program: Program,
    store: Store,
    database: Database,
}

impl World {
    /// Starts the program with these objects in the store, and waits until it is ready.
    async fn start(objects: &[(&str, &[&str])], flags: &[&str]) -> Self {
        Self::on(Database::start().await, objects, flags).await
    }

    /// The same on an existing database.
    async fn on(database: Database, objects: &[(&str, &[&str])], flags: &[&str]) -> Self {
        let store = Store::new(database.workdir.join("store"));
        for (name, addresses) in objects {
            store.write_status(name, addresses);
        }
        let remote = database.northbound.remote();
        let program = start(database.workdir.path(), &store, &remote, flags).await;
        program.ready().await;
        Self {
            program,
            store,
            database,
        }
    }

    async fn metric(&self, metric: &str, labels: &[&str]) -> f64 {
        let value = self.program.admin().metric(metric, labels).await;
        value.expect("a metric")
    }

    async fn shows(&self, metric: &str, labels: &[&str], value: f64) {
        eventually(&format!("{metric} {labels:?} = {value}"), async || {
            let found = self.metric(metric, labels).await;
            let is_right = (found - value).abs() < f64::EPSILON;
            is_right.then_some(()).ok_or_else(|| found.to_string())
        })
        .await;
    }

    /// Waits until the page `/readyz` contains this text.
    async fn says(&self, words: &str) {
        eventually(&format!("/readyz says {words}"), async || {
            let answer = self.program.admin().get("/readyz").await;
            let (_, text) = answer.map_err(|error| error.to_string())?;
            text.contains(words).then_some(()).ok_or(text)
        })
        .await;
    }

    fn nbctl(&self, args: &[&str]) -> String {
        self.database.northbound.nbctl(args).unwrap()
    }
}

async fn start(folder: &Path, store: &Store, remote: &str, flags: &[&str]) -> Program {
    let address = store.address();
    let args = [&["--store", &address, "--nb", remote], flags].concat();
    let args = args.iter().map(|arg| (*arg).to_owned()).collect();
    Program::start(folder, "ovn-writer", args).await
}
