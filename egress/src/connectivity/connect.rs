//! `egress connect`: the connections of the test's pod.

use std::{
    fs,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::Context;
use clap::Args;
use proto::text::json;
use serde::{Deserialize, Serialize};
use tokio::{
    net::{TcpStream, lookup_host},
    time::timeout,
};

use super::destination::Destination;
use crate::output;

/// The longest time of a connection: a packet is sent again after one second, and after three.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Connects to names, one after another, and prints the results as JSON.
#[derive(Args, Clone, Debug)]
pub struct ConnectArgs {
    /// The names.
    #[arg(value_name = "NAME[:PORT]", required = true)]
    pub destinations: Vec<Destination>,

    /// A file for the results, too.
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// A connection to the first address of a name.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Connected {
    pub(super) destination: String,
    pub(super) address: Option<IpAddr>,
    lookup_milliseconds: u64,
    connect_milliseconds: u64,
    /// Why there is no connection.
    pub(super) error: Option<String>,
}

impl Connected {
    async fn to(destination: &Destination) -> Self {
        let mut connected = Self {
            destination: destination.to_string(),
            address: None,
            lookup_milliseconds: 0,
            connect_milliseconds: 0,
            error: None,
        };
        let started = Instant::now();
        // With the dot at its end no search path is tried.
        let found = lookup_host((format!("{}.", destination.name()), destination.port())).await;
        connected.lookup_milliseconds = millis(started);
        let first = found.map(|mut found| found.next());
        match first {
            Ok(Some(address)) => connected.connect(address).await,
            Ok(None) => connected.error = Some("no address".to_owned()),
            Err(error) => connected.error = Some(error.to_string()),
        }
        connected
    }

    async fn connect(&mut self, to: SocketAddr) {
        self.address = Some(to.ip());
        let started = Instant::now();
        let opened = timeout(CONNECT_TIMEOUT, TcpStream::connect(to)).await;
        self.connect_milliseconds = millis(started);
        self.error = match opened {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_elapsed) => Some(format!("no answer in {} s", CONNECT_TIMEOUT.as_secs())),
        };
    }

    /// The time from the first packet to the connection.
    pub(super) fn took(&self) -> Duration {
        Duration::from_millis(self.connect_milliseconds)
    }

    pub(super) fn words(&self) -> String {
        let (lookup, connect) = (self.lookup_milliseconds, self.connect_milliseconds);
        match (&self.address, &self.error) {
            (Some(address), None) => {
                format!("{address} in {connect} ms, its answer in {lookup} ms")
            }
            (Some(address), Some(error)) => format!("{address}: {error}"),
            (None, error) => error.clone().unwrap_or_default(),
        }
    }
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Connects, and prints the results.
///
/// # Errors
/// A result cannot be written.
pub(crate) async fn run(args: ConnectArgs) -> anyhow::Result<()> {
    let mut results = Vec::new();
    for destination in &args.destinations {
        results.push(Connected::to(destination).await);
    }
    let text = json(&results)?;
    if let Some(file) = &args.file {
        fs::write(file, &text).with_context(|| file.display().to_string())?;
    }
    output::line(&text)?;
    Ok(())
}
