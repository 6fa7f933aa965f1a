//! Writes the addresses of DNS names into IPMaps, NetworkPolicies, and NetworkSets of Calico, as `DNSResolver` objects ask.
//!
//! Data flows in one direction:
//!
//! - [`names`] has the names of a `DNSResolver`, and what the statuses of `DNSNameResolver` objects say about each.
//! - [`plan`] compares the objects as they should be with the stored ones, without IO. It says what to write, and when to
//!   look again.
//! - [`writer`] is the loop around it: watches, the lead, and writes.
//! - [`facts`] is what administrators see of it, and [`inspect`] serves that.

mod args;
pub mod facts;
pub mod inspect;
mod metrics;
pub mod names;
pub mod plan;
pub mod writer;

use std::{process::ExitCode, sync::Arc};

use anyhow::Context;
use axum::Router;
use parking_lot::Mutex;
use proto::facts::Program;
use runtime::{
    OpenStore,
    admin::{Admin, Health},
    inspect::{Inspect, Process, QueryPacer},
    kube_events::Reporter,
    leader::{Leader, Leadership},
    shutdown::Tasks,
    telemetry,
};

pub use self::{
    args::{ADMIN, Args, PREFIX},
    metrics::METRICS,
};
use self::{inspect::Inspector, plan::Planner, writer::Writer};

/// The name of the program, and of its Lease.
const PROGRAM: &str = "policy-writer";

/// The program. What is async is compiled where it is called, so it is called here.
pub fn main() -> ExitCode {
    runtime::run_program(PROGRAM, run(runtime::args::parse(PREFIX, ADMIN)))
}

/// Runs the program until it is told to end.
///
/// # Errors
/// A store that cannot be opened, an address in use, and any error that ends a task.
async fn run(args: Args) -> anyhow::Result<()> {
    let (options, namespace) = (args.options(), args.namespace());
    let Args {
        common,
        leader_elect,
        inspect,
        ..
    } = args;
    telemetry::init_logging(common.log_format);
    let exporter = telemetry::init_metrics(PROGRAM, METRICS)?;
    let store = OpenStore::open(&common.store, PROGRAM).await?;
    let (health, mut tasks) = (Health::new(), Tasks::new());
    let admin = Admin::bind(common.admin).await.context("--admin")?;
    let planner = Arc::new(Mutex::new(Planner::new(options)));
    if let Some(address) = &inspect {
        let listener = Inspect::bind(address).await.context("--inspect")?;
        let process = Process::start(
            Program::PolicyWriter,
            &health,
            store.bad_objects(),
            inspect::history(),
            &exporter,
            &mut tasks,
        );
        let inspector = Inspector {
            planner: planner.clone(),
            process,
            pacer: QueryPacer::default(),
        };
        let serving = listener.serve(inspector, Router::new(), tasks.token());
        tasks.spawn("inspect", serving);
    }
    let leadership = leader_elect.then(|| Leadership::of(&store, &namespace, PROGRAM));
    let leader = leadership
        .as_ref()
        .map_or_else(Leader::sole, Leadership::leader);
    let (reporter, reporting) = Reporter::new(&store);
    tasks.spawn("reports", reporting.run(tasks.token()));
    let gate = health.gate("store", "the objects have not been read yet");
    tasks.spawn("admin", admin.serve(health, exporter, tasks.token()));
    if let Some(leadership) = leadership {
        tasks.spawn("leadership", leadership.run(tasks.token()));
    }
    let writer = Writer {
        planner,
        store,
        leader,
        reporter,
        gate,
    };
    writer.spawn(namespace, &mut tasks);
    tasks.run().await
}
