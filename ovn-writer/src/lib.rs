//! Turns `DNSNameResolver` objects into `Address_Set` rows of OVN's northbound database.
//!
//! Data goes one way: [`desired`] adds up the statuses of the store by DNS name, [`sync`] compares that with the rows of the
//! database ([`address_set`]) and says what to change, and [`ovsdb`], a client of OVSDB that knows nothing of all this, keeps
//! the replica of the rows and carries the changes out. [`Writer`] is the loop around them.

pub mod address_set;
mod args;
pub mod desired;
mod metrics;
pub mod ovsdb;
pub mod sync;
#[cfg(test)]
mod testing;
mod writer;

use anyhow::Context;
use runtime::{
    admin::{Admin, Health},
    shutdown::Tasks,
    store::{OpenStore, Scope, Store},
    telemetry,
};

pub use self::{
    args::{ADMIN, Args, NorthboundArgs, PREFIX},
    writer::Writer,
};

/// Runs the program until it is told to end.
///
/// # Errors
/// A store that cannot be opened, an address in use, and whatever ends a task.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let Args { common, northbound } = args;
    let options = northbound.client_options()?;
    telemetry::init_logging(common.log_format);
    let recorder = telemetry::init_metrics()?;
    metrics::describe();
    let store = OpenStore::open(&common.store, "ovn-writer").await?;
    let (health, mut tasks) = (Health::new(), Tasks::new());
    let admin = Admin::bind(common.admin).await.context("--admin")?;
    let writer = Writer::new(&northbound.nb, options, &health);
    let objects = store.watch(Scope::Namespace(common.objects_namespace));
    tasks.spawn("admin", admin.serve(health, recorder, tasks.token()));
    tasks.spawn("writer", writer.run(objects, tasks.token()));
    tasks.run().await
}
