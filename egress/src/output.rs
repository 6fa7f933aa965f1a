//! Output on stdout, and in new files.

use std::{
    fs::OpenOptions,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use runtime::UsageError;

/// Prints a text and a line break.
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
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(UsageError(format!("cannot write to stdout: {error}"))),
    }
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
