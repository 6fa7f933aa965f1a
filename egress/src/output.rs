//! Output on stdout.

use std::io::{self, Write};

use runtime::UsageError;

/// Prints a text and a line break.
///
/// # Errors
/// [`UsageError`]: stdout cannot be written. A reader of only the first lines, such as `head`, is no error: the exit status is
/// that of the whole output.
pub(crate) fn line(text: &str) -> Result<(), UsageError> {
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|error| UsageError(format!("cannot write to stdout: {error}"))),
    }
}
