//! Turns `DNSNameResolver` objects into `Address_Set` rows of OVN's northbound database.
//!
//! Data flows in one direction:
//!
//! - [`desired`] sums up the statuses of the store by DNS name.
//! - [`plan`] compares them with the rows of the database ([`address_set`]) and the rules that refer to these
//!   ([`references`]), and plans changes.
//! - [`ovsdb_replica`], an OVSDB client, keeps the replica of the rows and carries the changes out.
//!
//! [`Writer`] is the loop around them. [`facts`] has what it knows about names and addresses, as JSON.

pub mod address_set;
pub mod addresses;
mod args;
pub mod desired;
mod dry_run;
mod external_ids;
pub mod facts;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod memory;
mod metrics;
pub mod plan;
pub mod references;
mod report;
#[cfg(test)]
mod testing;
mod writer;

use std::{io, pin::pin, process::ExitCode};

use anyhow::Context;
use axum::Router;
use futures_util::{Stream, StreamExt, stream};
use proto::facts::Program;
use runtime::{
    OpenStore, UsageError,
    admin::{Admin, Health},
    inspect::{Inspect, Process, QueryPacer},
    leader::{Leader, Leadership},
    shutdown::Tasks,
    store::{Scope, Store},
    telemetry,
};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::facts::Inspector;
pub use self::{
    args::{ADMIN, Args, NorthboundArgs, PREFIX, SetsArgs},
    dry_run::DryRun,
    metrics::METRICS,
    writer::Writer,
};

/// The name of the program, and of its Lease.
const PROGRAM: &str = "ovn-writer";

/// The buffer for events of the store.
const OBJECTS: usize = 16;

/// The program. What is async is compiled where it is called, so it is called here.
pub fn main() -> ExitCode {
    runtime::run_program(PROGRAM, run(runtime::args::parse(PREFIX, ADMIN)))
}

/// Runs the program until it is told to end.
///
/// # Errors
/// A store that cannot be opened, an address in use, and any error that ends a task.
async fn run(args: Args) -> anyhow::Result<()> {
    let policy = args.policy();
    let Args {
        common,
        objects_namespace,
        northbound,
        dry_run,
        leader_elect,
        inspect,
        ..
    } = args;
    let options = usage(northbound.client_options())?;
    telemetry::init_logging(common.log_format);
    let exporter = telemetry::init_metrics(PROGRAM, METRICS)?;
    let store = OpenStore::open(&common.store, PROGRAM).await?;
    let (health, mut tasks) = (Health::new(), Tasks::new());
    let admin = Admin::bind(common.admin).await.context("--admin")?;
    let inspect = match &inspect {
        Some(address) => Some(Inspect::bind(address).await.context("--inspect")?),
        None => None,
    };
    let writer = Writer::new(&northbound.nb, options, policy, &health);
    let namespace = objects_namespace;
    let leadership = leader_elect.then(|| Leadership::of(&store, &namespace, PROGRAM));
    let leader = leadership.as_ref();
    let leader = leader.map_or_else(Leader::sole, Leadership::leader);
    let writer = if dry_run {
        writer.dry_run(DryRun::new(io::stdout()))
    } else {
        writer.led_by(leader)
    };
    let (asked, questions) = mpsc::channel(facts::QUEUE);
    let writer = writer.inspected(questions);
    if let Some(listener) = inspect {
        let process = Process::start(
            Program::OvnWriter,
            &health,
            store.bad_objects(),
            facts::history(),
            &exporter,
            &mut tasks,
        );
        let inspector = Inspector {
            writer: asked,
            process,
            pacer: QueryPacer::default(),
        };
        let serving = listener.serve(inspector, Router::new(), tasks.token());
        tasks.spawn("inspect", serving);
    }
    // The objects are read on other threads than the writer's.
    let (sender, mut receiver) = mpsc::channel(OBJECTS);
    let objects = store.watch(Scope::Namespace(namespace));
    tasks.spawn("watch", forward(objects, sender, tasks.token()));
    let objects = stream::poll_fn(move |context| receiver.poll_recv(context));
    tasks.spawn("admin", admin.serve(health, exporter, tasks.token()));
    if let Some(leadership) = leadership.filter(|_| !dry_run) {
        tasks.spawn("leadership", leadership.run(tasks.token()));
    }
    tasks.spawn_alone("writer", writer.run(objects, tasks.token()));
    tasks.run().await
}

/// Forwards events until the token is cancelled. If either end closes earlier, the receiver reports why.
async fn forward<T>(
    events: impl Stream<Item = T>,
    sender: mpsc::Sender<T>,
    token: CancellationToken,
) -> anyhow::Result<()> {
    let all = async move {
        let mut events = pin!(events);
        while let Some(event) = events.next().await
            && sender.send(event).await.is_ok()
        {}
    };
    token.run_until_cancelled(all).await;
    token.cancelled().await;
    Ok(())
}

fn usage<T, E: std::fmt::Display>(result: Result<T, E>) -> Result<T, UsageError> {
    result.map_err(|error| UsageError(error.to_string()))
}
