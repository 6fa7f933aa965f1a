//! `--control`: permissions of an administrator for the running writer. It is a separate unix socket of mode 0600,
//! apart from `--inspect`.

use std::io::{self, Write as _};

use anyhow::bail;
use axum::{
    Router,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post,
};
use clap::Parser;
use runtime::{
    UsageError,
    inspect::{Inspect, busy, client, json, refusal, text::printable},
    listen::ListenAddress,
};
use tokio::{sync::mpsc, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    PROGRAM,
    inspect::{ANSWER_DEADLINE, WriterQuery, ask},
};

const ALLOW_EMPTY: &str = "/allow-empty";

/// Lets a running ovn-writer empty the address sets of all names that are absent now.
///
/// It does so once, for any number of names. The command prints the names.
#[derive(Clone, Debug, Parser)]
#[command(name = "allow-empty")]
pub struct AllowEmptyArgs {
    /// The `--control` URL of the running ovn-writer.
    #[arg(long, value_name = "URL", value_parser = parse_control)]
    pub control: ListenAddress,
}

/// Parses the address of a socket that only the user of the process can open.
///
/// # Errors
/// It is no unix socket, or its mode admits others.
pub(crate) fn parse_control(text: &str) -> anyhow::Result<ListenAddress> {
    let address: ListenAddress = text.parse()?;
    match &address {
        ListenAddress::Unix(unix)
            if unix.mode.is_none() && unix.uid.is_none() && unix.gid.is_none() =>
        {
            Ok(address)
        }
        _ => bail!(
            "it is a unix socket without further options, such as unix:///run/ovn-writer/control.sock"
        ),
    }
}

/// Answers until the token is cancelled.
///
/// # Errors
/// The errors of [`Inspect::serve`].
pub async fn serve(
    listener: Inspect,
    writer: mpsc::Sender<WriterQuery>,
    token: CancellationToken,
) -> anyhow::Result<()> {
    let router = Router::new()
        .route(ALLOW_EMPTY, post(allow_empty))
        .with_state(writer);
    listener.serve(router, token).await
}

async fn allow_empty(State(writer): State<mpsc::Sender<WriterQuery>>) -> Response {
    let asked = ask(&writer, WriterQuery::AllowEmpty);
    match timeout(ANSWER_DEADLINE, asked).await.ok().flatten() {
        Some(Ok(names)) => json(&names),
        Some(Err(reason)) => refusal(StatusCode::CONFLICT, &reason.to_string()).into_response(),
        None => busy(PROGRAM),
    }
}

/// Sends the permission to the running ovn-writer, and prints the names that it may empty now.
///
/// # Errors
/// [`UsageError`]: the ovn-writer cannot be reached, or refuses.
pub async fn run_allow_empty(args: AllowEmptyArgs) -> anyhow::Result<()> {
    let answer = async { client::post(client::connect(&args.control).await?, ALLOW_EMPTY).await };
    let names: Vec<String> = answer.await.map_err(|error| {
        UsageError(format!(
            "cannot ask the ovn-writer at {}: {error:#}",
            args.control
        ))
    })?;
    let mut stdout = io::stdout().lock();
    for name in &names {
        writeln!(stdout, "{}", printable(name))?;
    }
    stdout.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_socket_of_the_user_alone_takes_permissions() {
        assert!(parse_control("unix:///run/control.sock").is_ok());
        for text in [
            "tcp://127.0.0.1:9093",
            "unix:///run/control.sock?mode=0660",
            "unix:///run/control.sock?gid=5",
            "/run/control.sock",
        ] {
            assert!(parse_control(text).is_err(), "{text}");
        }
    }
}
