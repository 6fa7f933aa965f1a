//! `egress watch`: from an answer to the status, the row and the rules, for each new address, as it happens.

mod join;
mod lines;
mod render;
mod streams;
mod unrealized;

use std::{
    io::{self, Write},
    time::Duration,
};

use clap::Args;
use runtime::{
    UsageError,
    args::{parse_duration, parse_namespace},
    inspect::client::Output,
};
use tokio::{
    sync::mpsc,
    time::{Instant, interval, sleep_until},
};

use self::{
    join::{Joiner, Selection},
    streams::{Heard, StreamEvent, Streams},
};
use crate::{output, pattern::NamePattern, targets::TargetArgs};

/// The lines that wait to be joined.
const QUEUE: usize = 1024;

/// How often addresses are checked for missing legs.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Prints each new address, with the time of each leg from the DNS answer to the rules of the switches.
///
/// A line is printed once all nodes have the address. If a leg is missing for some seconds, the line says which. A program
/// that goes away is named and connected to again. The times are from the clocks of several machines.
///
/// Exit status 0 after `--duration`. 2: no program could be reached.
#[derive(Args, Clone, Debug)]
pub struct WatchArgs {
    /// Only names that contain this text, or match it if it has a `*`, such as `*.example.com`. Default: all names.
    #[arg(long, value_name = "TEXT")]
    pub name: Option<NamePattern>,

    /// Only names in rules of this namespace. Default: all namespaces.
    #[arg(long, value_name = "NAMESPACE", value_parser = parse_namespace)]
    pub namespace: Option<String>,

    /// How long the command watches. Default: until it is interrupted.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub duration: Option<Duration>,

    /// How long a leg may be missing before the line is printed without it.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_duration)]
    pub missing_after: Duration,

    /// The format of the lines.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    pub output: Output,

    #[command(flatten)]
    pub targets: TargetArgs,
}

/// Prints lines until the time is over, or stdout is closed.
///
/// # Errors
/// [`UsageError`]: no program could be reached.
pub(crate) async fn run(args: WatchArgs) -> anyhow::Result<bool> {
    let until = args.duration.map(|duration| Instant::now() + duration);
    let (sender, mut heard) = mpsc::channel(QUEUE);
    let mut streams = Streams::new(&args.targets, sender).await?;
    let selection = Selection {
        name: args.name.clone(),
        namespace: args.namespace.clone(),
    };
    let mut joiner = Joiner::new(selection, args.missing_after);
    let (mut was_up, mut checks) = (false, interval(CHECK_INTERVAL));
    loop {
        let over = async {
            match until {
                Some(until) => sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        let done = tokio::select! {
            biased;
            () = over => break,
            Some(Heard { program, what }) = heard.recv() => {
                note(&program.to_string(), &what, joiner.has_lost(&program.place, &what));
                was_up |= matches!(what, StreamEvent::Line(_));
                joiner.take(&program, what, now());
                joiner.complete()
            }
            _ = checks.tick() => joiner.overdue(now()),
            gone = streams.changed() => {
                for place in gone {
                    joiner.forget(&place);
                }
                continue;
            }
        };
        for told in done {
            let line = match args.output {
                Output::Text => render::text(&told),
                Output::Json => render::json(&told)?,
            };
            if !output::is_taken(&line)? {
                return Ok(true);
            }
        }
    }
    match was_up {
        true => Ok(true),
        false => Err(UsageError("no program could be reached".to_owned()).into()),
    }
}

fn now() -> std::time::Instant {
    Instant::now().into_std()
}

/// Tells on stderr that a program went away or returned, or that lines of it were lost.
fn note(program: &str, what: &StreamEvent, lost: Option<u64>) {
    let words = match what {
        StreamEvent::Down(error) => format!("the {program} does not answer: {error}"),
        StreamEvent::Up => format!("watching the {program}"),
        StreamEvent::Line(_) => match lost {
            Some(lost) => format!("{lost} events of the {program} were lost: they came too fast"),
            None => return,
        },
    };
    let words = runtime::inspect::text::printable(&words);
    // Without a stderr the lines go on.
    let _closed = writeln!(io::stderr(), "{words}");
}
