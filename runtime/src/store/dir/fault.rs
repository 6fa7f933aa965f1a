//! The fault of a file.

/// The largest file that is read or written, in bytes: 40,000 addresses.
pub(super) const MAX_SIZE: usize = 4 << 20;

/// The fault of a file. Its text is `:LINE: reason`, to follow the path.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{}: {reason}", .line.map(|line| format!(":{line}")).unwrap_or_default())]
pub(super) struct Fault {
    /// The line, counted from 1, if the fault has one.
    pub(super) line: Option<u64>,
    /// One line for people.
    pub(super) reason: String,
}

impl Fault {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self {
            line: None,
            reason: reason.into(),
        }
    }

    /// The text without a path.
    pub(super) fn in_words(&self) -> String {
        match self.line {
            Some(line) => format!("line {line}: {}", self.reason),
            None => self.reason.clone(),
        }
    }
}

impl From<serde_saphyr::Error> for Fault {
    fn from(error: serde_saphyr::Error) -> Self {
        let line = error.location().map(|l| l.line()).filter(|line| *line > 0);
        let reason = match error.without_snippet() {
            serde_saphyr::Error::MultipleDocuments { .. } => {
                "more than one YAML document in a file: give each object a file of its own"
                    .to_owned()
            }
            error => {
                let words = error.render_with_formatter(&serde_saphyr::UserMessageFormatter);
                words.lines().collect::<Vec<_>>().join(" ")
            }
        };
        Self { line, reason }
    }
}

pub(super) fn too_large() -> Fault {
    Fault::new(format!("larger than {MAX_SIZE} bytes"))
}
