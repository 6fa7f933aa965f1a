//! Output on stdout, progress on stderr, and new files.

use std::{
    fs::OpenOptions,
    io::{self, IsTerminal, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use clap::{
    ValueEnum,
    builder::styling::{AnsiColor, Style},
};
use proto::text::json;
use runtime::UsageError;
use serde::Serialize;
use tokio::time::{Instant, interval_at};

/// The time without an answer after which a terminal shows that the command waits.
const PATIENCE: Duration = Duration::from_secs(1);

/// The most lines of a kind; the rest is counted. The JSON has more.
pub(crate) const MOST_LINES: usize = 40;

/// The most things named in a line.
pub(crate) const MOST_NAMED: usize = 5;

/// Whether stderr has a line of progress.
static IN_PROGRESS: AtomicBool = AtomicBool::new(false);

/// The format of an answer.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub enum Format {
    /// Plain text
    #[default]
    Text,
    /// JSON, one object
    Json,
    /// YAML, the same object
    Yaml,
}

impl Format {
    /// The answer in this format.
    ///
    /// # Errors
    /// The answer cannot be serialized.
    pub(crate) fn render<T: Serialize>(
        self,
        answer: &T,
        text: impl FnOnce(&T) -> String,
    ) -> anyhow::Result<String> {
        Ok(match self {
            Self::Text => text(answer),
            Self::Json => json(answer)?,
            Self::Yaml => serde_saphyr::to_string(answer)?.trim_end().to_owned(),
        })
    }
}

/// Prints a text and a line break. In a terminal, marks have a colour.
///
/// # Errors
/// [`UsageError`]: stdout cannot be written. A reader of only the first lines, such as `head`, is no error: the exit status is
/// that of the whole output.
pub(crate) fn line(text: &str) -> Result<(), UsageError> {
    is_taken(text).map(|_| ())
}

/// Prints a text and a line break. Returns whether stdout has a reader that may want more.
///
/// # Errors
/// As for [`line()`].
pub(crate) fn is_taken(text: &str) -> Result<bool, UsageError> {
    clear_progress();
    let mut stdout = anstream::stdout().lock();
    let text: Vec<String> = text.lines().map(coloured).collect();
    match writeln!(stdout, "{}", text.join("\n")).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(UsageError(format!("cannot write to stdout: {error}"))),
    }
}

/// A line whose mark has the colour of its meaning. `anstream` takes it out in a pipe, and with `NO_COLOR`.
fn coloured(line: &str) -> String {
    let rest = line.trim_start();
    let mut rest = rest.chars();
    let colour = match rest.next() {
        Some('✓') => AnsiColor::Green,
        Some('!') => AnsiColor::Yellow,
        Some('✗') => AnsiColor::Red,
        Some('?') => AnsiColor::Magenta,
        _ => return line.to_owned(),
    };
    let rest = rest.as_str();
    let mark = line.strip_suffix(rest).unwrap_or_default();
    let style = Style::new().fg_color(Some(colour.into())).bold();
    format!("{style}{mark}{style:#}{rest}")
}

/// Runs a command that asks programs. In a terminal, stderr says how long it waits.
pub(crate) async fn with_progress<T>(command: impl Future<Output = T>) -> T {
    if !io::stderr().is_terminal() {
        return command.await;
    }
    let (started, second) = (Instant::now(), Duration::from_secs(1));
    let mut ticks = interval_at(started + PATIENCE, second);
    let mut command = std::pin::pin!(command);
    loop {
        tokio::select! {
            done = &mut command => {
                clear_progress();
                return done;
            }
            _ = ticks.tick() => {
                IN_PROGRESS.store(true, Relaxed);
                progress(&format!("waiting for answers: {} s", started.elapsed().as_secs()));
            }
        }
    }
}

fn clear_progress() {
    if IN_PROGRESS.swap(false, Relaxed) {
        progress("");
    }
}

/// Replaces the line of progress. Without it nothing is lost, so errors do not matter.
fn progress(words: &str) {
    let _shown = write!(io::stderr(), "\r\x1b[K{words}");
}

/// Creates a file, which must not exist yet; `-` is stdout. Its mode is 0600: it has names and queries of tenants.
///
/// # Errors
/// The file exists or cannot be created.
pub(crate) fn create(path: &Path) -> io::Result<Box<dyn Write>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdout().lock()));
    }
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    Ok(Box::new(file))
}
