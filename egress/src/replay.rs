//! Replays a file of events as a stream: which answers the collector would have observed, and which
//! statuses it would have written.

mod args;
mod print;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read, Write},
    path::Path,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, anyhow};
use bytes::{Buf, BytesMut};
use collector::{
    controller::{self, StatusController},
    guards::Guards,
    new_names::NewNames,
    objects::{ManageObjects, ObjectPolicy, publish},
    observe::{
        answer_cache::AnswerCache,
        metrics::{Counts, Outcome},
        names::NameIndex,
        pipeline::{self, Context as Against, StreamHistory},
    },
    query_origin::OwnQueries,
    rules::{RetentionPolicy, Source, Wanted, WantedName, names_in_use},
    state::Limits,
};
use futures_util::StreamExt;
use prost::Message;
use proto::{
    api::{DnsName, DnsNameResolver, EgressFirewall},
    dnstap,
    frame_stream::{self, Action, Phase, Step, StreamReader},
};
use runtime::{
    OpenStore,
    args::StoreAddress,
    clock::{Clock, Timestamp},
    inspect::client::Output,
    store::{Event, ObjectKey, Scope, Store},
};
use tokio::time::timeout;

pub(crate) use self::args::ReplayArgs;
use self::print::{Printer, address_changes};
use crate::PROGRAM;

/// The time-out for listing the EgressFirewalls.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// The bytes read from the file at once.
const CHUNK: usize = 64 << 10;

/// Prints the collector's actions for a file.
///
/// # Errors
/// The EgressFirewalls or the file cannot be read, or stdout is closed. If the file is truncated or
/// no Frame Streams, the results up to there are printed first.
pub(crate) async fn run(args: ReplayArgs) -> anyhow::Result<()> {
    let limits = Limits {
        lookups: false,
        ..args.retention.limits(&args.name_limits)?
    };
    let terms = args.retention.retention_rules();
    let mut names: BTreeMap<_, _> = args
        .names
        .iter()
        .map(|it| (it.clone(), terms.defaults))
        .collect();
    if let Some(store) = &args.store {
        names.extend(names_in_use(&egress_firewalls(store).await?, terms));
    }
    let config = controller::Config {
        objects: ObjectPolicy::of_egress_firewalls("", ManageObjects::Always),
        limits,
        guards: Guards::new(args.guards.deny_answer.clone()),
        ..controller::Config::default()
    };
    let out = io::BufWriter::new(io::stdout().lock());
    let mut replay = Replay::new(config, names.into_iter().collect(), args.output, out);
    let read = match open(&args.file) {
        Ok(mut file) => replay.read(&mut file),
        Err(error) => Err(error),
    };
    let read = read.with_context(|| args.file.display().to_string());
    match replay.end() {
        // A closed pipe is no error: the reader of the lines has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        ended => read.and(ended.context("cannot write to stdout")),
    }
}

async fn egress_firewalls(address: &StoreAddress) -> anyhow::Result<Vec<EgressFirewall>> {
    let store = OpenStore::open(address, PROGRAM).await?;
    let mut events = pin!(store.watch::<EgressFirewall>(Scope::All));
    let listed = async {
        let mut reason = "they were not listed";
        while let Some(event) = events.next().await {
            match event {
                Event::Synced(firewalls) => return Ok(firewalls),
                Event::OutOfSync(_) => reason = "they cannot be read",
                _ => {}
            }
        }
        Err(anyhow!("{reason}"))
    };
    let listed = timeout(LIST_TIMEOUT, listed).await;
    listed
        .unwrap_or_else(|_| Err(anyhow!("not within {LIST_TIMEOUT:?}")))
        .with_context(|| format!("cannot list the EgressFirewalls of {address}"))
}

fn open(path: &Path) -> anyhow::Result<Box<dyn Read>> {
    Ok(if path == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(path)?)
    })
}

/// The collector without streams, and with an in-memory store and clock.
struct Replay<W> {
    controller: StatusController,
    index: NameIndex,
    guards: Guards,
    clock: Clock,
    stored: BTreeMap<ObjectKey, DnsNameResolver>,
    versions: u64,
    counts: Counts,
    frames: u64,
    printer: Printer<W>,
}

impl<W: Write> Replay<W> {
    fn new(
        config: controller::Config,
        names: BTreeMap<DnsName, RetentionPolicy>,
        format: Output,
        out: W,
    ) -> Self {
        let guards = config.guards.clone();
        let index = names.keys().collect();
        let (clock, begin) = (Clock::manual(Timestamp::default()), Timestamp::default());
        let mut controller = StatusController::new(config);
        controller.lead(true, begin);
        controller.event(Source::EgressFirewall, Event::Synced(Vec::new()), begin);
        let names = names.into_iter().map(|(name, retention)| {
            let in_use = WantedName::with_retention(retention);
            (name, Arc::new(in_use))
        });
        let wanted = Wanted {
            names: names.collect(),
            in_sync: true,
            ..Wanted::default()
        };
        controller.want(&wanted.into(), begin);
        Self {
            controller,
            index,
            guards,
            clock,
            stored: BTreeMap::new(),
            versions: 0,
            counts: Counts::default(),
            frames: 0,
            printer: Printer::new(format, out),
        }
    }

    /// Reads a stream up to its STOP.
    fn read(&mut self, file: &mut dyn Read) -> anyhow::Result<()> {
        let mut reader = StreamReader::new(dnstap::CONTENT_TYPE, frame_stream::Limits::default());
        let mut buffer = BytesMut::new();
        let mut chunk = vec![0; CHUNK];
        loop {
            let length = file.read(&mut chunk)?;
            buffer.extend_from_slice(chunk.get(..length).unwrap_or_default());
            loop {
                let consumed = match reader.step(&buffer)? {
                    Step::Incomplete { .. } => break,
                    Step::Data { payload, consumed } => {
                        self.event(payload)?;
                        consumed
                    }
                    Step::Control {
                        action: Action::Finish(_),
                        ..
                    } => return Ok(()),
                    Step::Control { consumed, .. } => consumed,
                };
                buffer.advance(consumed);
            }
            if length == 0 {
                reader.end(&buffer)?;
                return Err(match reader.phase() {
                    Phase::Streaming => anyhow!("the file ends without STOP: it may be truncated"),
                    _ => anyhow!("the file ends without START: it is no Frame Streams"),
                });
            }
        }
    }

    fn event(&mut self, payload: &[u8]) -> io::Result<()> {
        self.frames += 1;
        let event = dnstap::pb::Dnstap::decode(payload).ok();
        let response = event.as_ref().and_then(dnstap::ClientResponse::of);
        let at = response.and_then(|it| pipeline::timestamp(it.time()?));
        // One event with an invalid time must not make all later events late.
        let at = at.filter(|at| print::is_of_a_calendar(*at));
        // Several threads of a DNS server write in no strict order.
        let now = self.clock.now().max(at.unwrap_or_default());
        self.clock.set(now);
        let remembered = AnswerCache::default();
        let own = OwnQueries::default();
        let new_names = NewNames::default();
        let against = Against {
            names: &self.index,
            guards: &self.guards,
            clock: &self.clock,
            remembered: &remembered,
            own: &own,
            secrets: None,
            new_names: &new_names,
        };
        let observation = pipeline::observe(
            payload,
            against,
            &mut StreamHistory::default(),
            &mut self.counts,
        );
        // Before the event, so that addresses that expired by then are gone.
        self.advance()?;
        if let Some(observation) = observation {
            self.printer.observed(&observation)?;
            self.controller.observe(&observation);
            self.advance()?;
        }
        Ok(())
    }

    /// Carries out the writes that are due now.
    fn advance(&mut self) -> io::Result<()> {
        let now = self.clock.now();
        self.controller.tick(now);
        loop {
            let writes = self.controller.writes(now);
            if writes.is_empty() {
                return Ok(());
            }
            for write in writes {
                let outcome = self.carry_out(&write)?;
                self.controller.written(&write.key(), &write, outcome, now);
            }
        }
    }

    fn carry_out(&mut self, write: &publish::Write) -> io::Result<publish::WriteOutcome> {
        let key = write.key();
        let object = match write {
            publish::Write::Delete(..) => {
                self.stored.remove(&key);
                return Ok(publish::WriteOutcome::Gone);
            }
            publish::Write::Create(object) | publish::Write::Status(object) => object,
        };
        self.versions += 1;
        let mut object = object.as_ref().clone();
        object.metadata.resource_version = Some(self.versions.to_string());
        let uid = || format!("{}", self.versions);
        object.metadata.uid.get_or_insert_with(uid);
        let before = self.stored.insert(key, object.clone());
        for change in address_changes(before.as_ref(), &object) {
            self.printer.changed(self.clock.now(), &change)?;
        }
        Ok(publish::WriteOutcome::Stored(Box::new(object)))
    }

    /// Prints the final state.
    fn end(mut self) -> io::Result<()> {
        // Writes of one object are spaced by some milliseconds: pending ones go now.
        self.controller.end();
        self.advance()?;
        let outcomes = Outcome::ALL
            .iter()
            .map(|outcome| (outcome.label(), self.counts.pending(*outcome)))
            .filter(|(_, count)| *count > 0)
            .collect();
        let refused = self.counts.refused().clone();
        self.printer
            .summary(self.frames, outcomes, refused, self.stored.values())
    }
}
