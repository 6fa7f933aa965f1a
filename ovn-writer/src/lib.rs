//! Turns `DNSNameResolver` objects into `Address_Set` rows of OVN's northbound database.
//!
//! Data goes one way: [`desired`] adds up the statuses of the store by DNS name, [`sync`] compares that with the rows of the
//! database ([`address_set`]) and with who refers to them ([`references`]) and says what to change, and [`ovsdb_replica`], a client
//! of OVSDB that knows nothing of all this, keeps the replica of the rows and carries the changes out. [`Writer`] is the loop around
//! them; [`verify()`] compares once, and [`report`] puts differences in words; [`explain`] says of one name or address
//! why it is there, over [`inspect`]; [`control`] takes what an administrator permits.

pub mod address_set;
pub mod addresses;
mod args;
pub mod control;
pub mod desired;
mod dry_run;
pub mod explain;
mod external_ids;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod inspect;
mod metrics;
pub mod references;
pub mod report;
pub mod sync;
#[cfg(test)]
mod testing;
mod verify;
mod writer;

use std::{io, io::Write as _, pin::pin};

use anyhow::Context;
use futures_util::{Stream, StreamExt, stream};
use runtime::{
    OpenStore, UsageError,
    admin::{Admin, Health},
    args::LogFormat,
    certificate_expiry,
    clock::Clock,
    inspect::Inspect,
    leader::{Leader, Leadership},
    shutdown::Tasks,
    store::{Scope, Store},
    telemetry,
};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::report::Format;
pub use self::{
    args::{ADMIN, Args, Cli, NorthboundArgs, PREFIX, SetsArgs, VerifyArgs},
    control::run_allow_empty,
    dry_run::DryRun,
    metrics::METRICS,
    sync::Differences,
    verify::{Verified, VerifyError, verify},
    writer::Writer,
};

/// The name of the program, and of its Lease.
const PROGRAM: &str = "ovn-writer";

/// Events of the store that wait to be taken in.
const OBJECTS: usize = 16;

/// Runs the program until it is told to end.
///
/// # Errors
/// A store that cannot be opened, an address in use, and whatever ends a task.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let Args {
        common,
        northbound,
        sets,
        dry_run,
        output,
        leader_elect,
        inspect,
        control,
    } = args;
    let options = usage(northbound.client_options())?;
    let now = Clock::system().now();
    let policy = sets.policy(&common.store, &common.objects_namespace, now)?;
    telemetry::init_logging(common.log_format);
    let recorder = telemetry::init_metrics()?;
    runtime::metrics::describe(METRICS);
    let store = OpenStore::open(&common.store, PROGRAM).await?;
    let (health, mut tasks) = (Health::new(), Tasks::new());
    let admin = Admin::bind(common.admin).await.context("--admin")?;
    let inspect = match &inspect {
        Some(address) => Some(Inspect::bind(address).await.context("--inspect")?),
        None => None,
    };
    let control = match &control {
        Some(address) => Some(Inspect::bind(address).await.context("--control")?),
        None => None,
    };
    let writer = Writer::new(&northbound.nb, options, policy, &health);
    let namespace = common.objects_namespace;
    let leadership = leader_elect.then(|| Leadership::of(&store, &namespace, PROGRAM));
    let writer = if dry_run {
        writer.dry_run(DryRun::new(io::stdout(), output))
    } else {
        writer.led_by(
            leadership
                .as_ref()
                .map_or_else(Leader::sole, Leadership::leader),
        )
    };
    let (asked, questions) = mpsc::channel(inspect::QUEUE);
    let writer = writer.inspected(questions);
    if let Some(listener) = control {
        let asked = asked.clone();
        tasks.spawn("control", control::serve(listener, asked, tasks.token()));
    }
    if let Some(listener) = inspect {
        tasks.spawn("inspect", inspect::serve(listener, asked, tasks.token()));
    }
    // Objects are read by other threads than the one that writes.
    let (sender, mut receiver) = mpsc::channel(OBJECTS);
    let objects = store.watch(Scope::Namespace(namespace));
    tasks.spawn("watch", forward(objects, sender, tasks.token()));
    let objects = stream::poll_fn(move |context| receiver.poll_recv(context));
    tasks.spawn("admin", admin.serve(health, recorder, tasks.token()));
    if let Some(leadership) = leadership.filter(|_| !dry_run) {
        tasks.spawn("leadership", leadership.run(tasks.token()));
    }
    let certificates = northbound.certificates();
    if !certificates.is_empty() {
        tasks.spawn(
            "expiry",
            certificate_expiry::run(certificates, tasks.token()),
        );
    }
    tasks.spawn_alone("writer", writer.run(objects, tasks.token()));
    tasks.run().await
}

/// Hands events on until the token is cancelled. If either end goes before, whoever takes them says why.
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

/// Compares store and database once and prints what differs. Returns whether they are the same.
///
/// # Errors
/// [`UsageError`], which is exit status 2: what keeps them from being compared, or what was found from being printed.
pub async fn run_verify(args: VerifyArgs) -> anyhow::Result<bool> {
    let VerifyArgs {
        store,
        objects_namespace,
        northbound,
        sets,
        output,
        timeout,
    } = args;
    let options = usage(northbound.client_options())?;
    let policy = sets.policy(&store, &objects_namespace, Clock::system().now())?;
    telemetry::init_logging(LogFormat::Text);
    let store = usage(
        OpenStore::open(&store, PROGRAM)
            .await
            .map_err(|error| format!("{error:#}")),
    )?;
    let objects = store.watch(Scope::Namespace(objects_namespace));
    let verified = verify(&northbound.nb, options, policy, objects, timeout).await;
    let verified = usage(verified)?;
    let mut stdout = io::stdout().lock();
    let written = match output {
        Format::Text => writeln!(stdout, "{verified}"),
        Format::Json => serde_json::to_writer(&mut stdout, &verified)
            .map_err(io::Error::from)
            .and_then(|()| writeln!(stdout)),
    };
    match written.and_then(|()| stdout.flush()) {
        // Who reads the first lines alone, as `head` does, has what it wants; the status is as if it had read all.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        written => usage(written.map_err(|error| format!("cannot write to stdout: {error}")))?,
    }
    Ok(verified.is_same())
}

fn usage<T, E: std::fmt::Display>(result: Result<T, E>) -> Result<T, UsageError> {
    result.map_err(|error| UsageError(error.to_string()))
}
