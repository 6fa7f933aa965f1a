//! `egress watch`: from an answer to the status and the rows, for each new address, as it happens.
//!
//! It polls the latest new addresses of the collectors and the ovn-writers. `join` finds the parts of each address.

mod join;
mod line;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    io::{self, Write},
    time::Duration,
};

use anyhow::Context;
use clap::Args;
use futures_util::{StreamExt, stream};
use proto::{
    facts::{MOST_NEW_ADDRESSES, Program, Query, Status},
    text::printable,
};
use runtime::{UsageError, args::parse_duration};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout, timeout_at};

use self::{
    join::{Joiner, Polled, Selection},
    line::Line,
};
use crate::{
    output::{self, Format},
    pattern::NamePattern,
    targets::{AT_ONCE, NamespaceArgs, Target, TargetArgs, Targets},
};

/// The pause between two polls.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// How often the programs are listed again. A program that did not answer is asked again then.
const FIND_INTERVAL: Duration = Duration::from_secs(5);

/// How long one program may delay a poll.
const POLL_TIMEOUT: Duration = Duration::from_secs(2);

/// Prints each new address, with the times from the DNS answer to the address sets of the nodes.
///
/// A line is printed once all nodes have the address. If a part is missing for 5 s, the line says which. A program that goes away
/// is named and asked again. The times are from the clocks of several machines.
///
/// Exit status 0 after `--duration`. 2: no program could be reached.
#[derive(Args, Clone, Debug)]
pub struct WatchArgs {
    /// Only names that contain this text, or match it if it has a `*`, such as `*.example.com`. Default: all names.
    #[arg(long, value_name = "TEXT")]
    pub name: Option<NamePattern>,

    #[command(flatten)]
    pub scope: NamespaceArgs,

    /// How long the command watches. Default: until it is interrupted.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub duration: Option<Duration>,

    /// The format of the lines.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    pub output: Format,

    #[command(flatten)]
    pub targets: TargetArgs,
}

/// Prints lines until the time is over, or stdout is closed.
///
/// # Errors
/// [`UsageError`]: no program could be reached.
pub(crate) async fn run(args: WatchArgs) -> anyhow::Result<bool> {
    let until = args.duration.map(|duration| Instant::now() + duration);
    let mut watch = Watch::new(&args).await?;
    let mut polls = interval(POLL_INTERVAL);
    polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let polled = async {
            polls.tick().await;
            watch.poll().await
        };
        let lines = match until {
            Some(until) => match timeout_at(until, polled).await {
                Ok(lines) => lines,
                Err(_elapsed) => break,
            },
            None => polled.await,
        };
        for line in lines {
            let text = args.output.render(&line, Line::text)?;
            // Each line is a document.
            let text = match args.output {
                Format::Yaml => format!("---\n{text}"),
                Format::Text | Format::Json => text,
            };
            if !output::is_taken(&text)? {
                return Ok(true);
            }
        }
    }
    if watch.was_reached {
        Ok(true)
    } else {
        Err(UsageError("no program could be reached".to_owned()).into())
    }
}

/// The programs, and what is known of their new addresses.
struct Watch<'a> {
    args: &'a TargetArgs,
    targets: Targets,
    listed_at: Instant,
    /// Whether the program at each place answered last.
    answered: HashMap<String, bool>,
    /// Those that are not asked before the programs are listed again.
    skipped: HashSet<String>,
    was_reached: bool,
    joiner: Joiner,
}

impl<'a> Watch<'a> {
    async fn new(args: &'a WatchArgs) -> anyhow::Result<Self> {
        let selection = Selection {
            name: args.name.clone(),
            namespace: args.scope.namespace.clone(),
        };
        Ok(Self {
            args: &args.targets,
            targets: args.targets.find().await?,
            listed_at: Instant::now(),
            answered: HashMap::new(),
            skipped: HashSet::new(),
            was_reached: false,
            joiner: Joiner::new(selection, Instant::now()),
        })
    }

    /// Asks all programs, and returns the lines to print.
    async fn poll(&mut self) -> Vec<Line> {
        if self.listed_at.elapsed() >= FIND_INTERVAL {
            self.listed_at = Instant::now();
            // While the API server does not answer, the known programs are asked.
            if !self.args.are_local()
                && let Ok(targets) = self.args.find().await
            {
                self.targets = targets;
            }
            self.skipped.clear();
        }
        let (collectors, writers) =
            tokio::join!(self.ask(Program::Collector), self.ask(Program::OvnWriter),);
        let collectors = self.note(Program::Collector, collectors).into_values();
        let collectors =
            collectors.filter_map(|it| Some((it.head.now, it.collector?.new_addresses)));
        let writers = self.note(Program::OvnWriter, writers).into_iter();
        let writers = writers.filter_map(|(place, it)| {
            // A standby, and one with `--dry-run`, never get a row.
            let facts = it.ovn_writer.filter(|it| it.idle.is_none())?;
            Some((place, (it.head.now, facts.new_addresses)))
        });
        let polled = Polled {
            collectors: collectors.collect(),
            writers: writers.collect(),
        };
        self.joiner.join(polled, Instant::now())
    }

    /// Asks the programs of a kind that are not known to be down.
    async fn ask(&self, kind: Program) -> Vec<(String, anyhow::Result<Status>)> {
        let query = Query {
            limit: 0,
            recent: MOST_NEW_ADDRESSES,
            ..Query::all()
        };
        let path = &query.path();
        let asked = self.targets.of(kind);
        let asked = asked.filter(|target| !self.skipped.contains(&target.place));
        let asked = asked.map(|target: &Target| async move {
            let answer = timeout(POLL_TIMEOUT, target.ask(path)).await;
            (
                target.place.clone(),
                answer.context("no answer in time").flatten(),
            )
        });
        stream::iter(asked).buffered(AT_ONCE).collect().await
    }

    /// Tells on stderr which programs went away or returned. Returns the answers by place.
    fn note<T>(
        &mut self,
        kind: Program,
        answers: Vec<(String, anyhow::Result<T>)>,
    ) -> BTreeMap<String, T> {
        let mut reached = BTreeMap::new();
        for (place, answer) in answers {
            let program = format!("{} {place}", kind.as_str());
            let is_news =
                self.answered.insert(place.clone(), answer.is_ok()) != Some(answer.is_ok());
            match answer {
                Ok(answer) => {
                    self.was_reached = true;
                    if is_news {
                        tell(&format!("watching the {program}"));
                    }
                    reached.insert(place, answer);
                }
                Err(error) => {
                    if is_news {
                        tell(&format!("the {program} does not answer: {error:#}"));
                    }
                    self.skipped.insert(place);
                }
            }
        }
        reached
    }
}

fn tell(words: &str) {
    // Without a stderr the lines go on.
    let _closed = writeln!(io::stderr(), "{}", printable(words));
}
