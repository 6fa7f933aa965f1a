//! The streams of `/watch`: one for each program, connected to again when it ends.

use std::{collections::HashMap, fmt, time::Duration};

use anyhow::{Context, bail};
use bytes::BytesMut;
use http_body_util::BodyExt;
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{Interval, MissedTickBehavior, interval, sleep, timeout},
};

use super::lines::Line;
use crate::targets::{Kind, Target, TargetArgs, Targets};

/// The wait before a connection is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// A program tells its state every second, so a silent one is gone.
const SILENCE: Duration = Duration::from_secs(5);

/// How often the pods of a cluster are listed.
const FIND_INTERVAL: Duration = Duration::from_secs(5);

/// The longest line, in bytes.
const MAX_LINE: usize = 4 << 20;

/// A watched program.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) kind: Kind,
    pub(super) place: String,
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.as_str(), self.place)
    }
}

/// Something of a program.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) program: Program,
    pub(super) what: StreamEvent,
}

#[derive(Debug)]
pub(super) enum StreamEvent {
    /// The stream begins.
    Up,
    Line(Line),
    /// There is no stream, or no more.
    Down(String),
}

/// The streams of all programs. They end with it.
pub(super) struct Streams<'a> {
    args: &'a TargetArgs,
    sender: mpsc::Sender<Heard>,
    tasks: HashMap<String, JoinHandle<()>>,
    times: Interval,
}

impl<'a> Streams<'a> {
    /// Begins to watch all programs.
    ///
    /// # Errors
    /// Those of [`TargetArgs::find`].
    pub(super) async fn new(
        args: &'a TargetArgs,
        sender: mpsc::Sender<Heard>,
    ) -> anyhow::Result<Self> {
        let targets = args.find().await?;
        let mut times = interval(FIND_INTERVAL);
        times.set_missed_tick_behavior(MissedTickBehavior::Delay);
        times.reset();
        let mut streams = Self {
            args,
            sender,
            tasks: HashMap::new(),
            times,
        };
        streams.follow(targets);
        Ok(streams)
    }

    /// Lists the programs again, and returns those that are gone for good. Cancel-safe.
    pub(super) async fn changed(&mut self) -> Vec<String> {
        loop {
            self.times.tick().await;
            // The list of local sockets is fixed.
            if self.args.are_local() {
                continue;
            }
            // While the API server does not answer, the known programs are watched.
            if let Ok(targets) = self.args.find().await {
                return self.follow(targets);
            }
        }
    }

    fn follow(&mut self, targets: Targets) -> Vec<String> {
        let places: Vec<&String> = targets.all.iter().map(|it| &it.place).collect();
        let gone = self.tasks.extract_if(|place, _| !places.contains(&place));
        let gone = gone.map(|(place, task)| {
            task.abort();
            place
        });
        let gone = gone.collect();
        // A policy-writer has no events.
        let watched = targets.all.into_iter();
        for target in watched.filter(|it| it.kind != Kind::PolicyWriter) {
            let sender = &self.sender;
            let task = self.tasks.entry(target.place.clone());
            task.or_insert_with(|| tokio::spawn(watch(target, sender.clone())));
        }
        gone
    }
}

impl Drop for Streams<'_> {
    fn drop(&mut self) {
        self.tasks.values().for_each(JoinHandle::abort);
    }
}

/// Watches a program until the receiver is gone.
async fn watch(target: Target, sender: mpsc::Sender<Heard>) {
    let program = Program {
        kind: target.kind,
        place: target.place.clone(),
    };
    let mut listener = Listener {
        program,
        sender,
        is_up: true,
    };
    loop {
        let ended = read(&target, &mut listener).await;
        // Each outage is told once, and one before the first stream, too.
        let was_up = std::mem::take(&mut listener.is_up);
        if let Err(error) = ended
            && was_up
        {
            listener.tell(StreamEvent::Down(format!("{error:#}"))).await;
        }
        if listener.sender.is_closed() {
            return;
        }
        sleep(RETRY_INTERVAL).await;
    }
}

/// Who hears of a program.
struct Listener {
    program: Program,
    sender: mpsc::Sender<Heard>,
    is_up: bool,
}

impl Listener {
    /// Waits for room. A receiver that is gone is noticed by the caller.
    async fn tell(&self, what: StreamEvent) {
        let program = self.program.clone();
        let _gone = self.sender.send(Heard { program, what }).await;
    }
}

/// Passes the lines of one stream on, until the receiver is gone.
async fn read(target: &Target, listener: &mut Listener) -> anyhow::Result<()> {
    let mut body = target.stream("/watch").await?;
    listener.is_up = true;
    listener.tell(StreamEvent::Up).await;
    let mut buffer = BytesMut::new();
    while !listener.sender.is_closed() {
        let frame = timeout(SILENCE, body.frame()).await;
        let frame = frame.context("it has been silent for 5 s")?;
        let Some(frame) = frame else {
            bail!("it closed the connection");
        };
        if let Ok(chunk) = frame.context("the connection broke off")?.into_data() {
            buffer.extend_from_slice(&chunk);
        }
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line = buffer.split_to(end + 1);
            let line = serde_json::from_slice(&line).context("a line is not the expected JSON")?;
            listener.tell(StreamEvent::Line(line)).await;
        }
        if buffer.len() > MAX_LINE {
            bail!("a line is too long");
        }
    }
    Ok(())
}
