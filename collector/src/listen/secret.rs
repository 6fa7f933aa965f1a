//! The shared secret that DNS servers send in the `extra` field of their events (`extra` in the
//! Corefile's `dnstap` block).
//!
//! Its protection is limited: it is in clear text on `tcp://`, and readable in the ConfigMap with
//! the Corefile.

use std::fmt;

use subtle::{Choice, ConstantTimeEq};

/// The shortest secret, in characters: 96 random bits take 16 of them.
const SHORTEST: usize = 16;

/// The longest, since every event carries it.
const LONGEST: usize = 256;

/// The accepted values: two while the DNS servers change over from one to the other.
#[derive(Clone, Eq, PartialEq)]
pub struct Secrets(Vec<Vec<u8>>);

/// Why a file has no valid [`Secrets`]. The text never contains the content of the file.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SecretError {
    /// No line, or more than two.
    #[error(
        "a file with secrets has one line, or two while the secret is changed; this one has {0}"
    )]
    Lines(usize),
    /// A character that a Corefile might not preserve.
    #[error("line {0} has a character other than A-Z, a-z, 0-9, `_` and `-`")]
    Alphabet(usize),
    #[error("line {0} has not {SHORTEST} to {LONGEST} characters")]
    Length(usize),
}

impl Secrets {
    /// Reads one secret a line; empty lines do not count.
    ///
    /// # Errors
    /// [`SecretError`].
    pub fn parse(file: &[u8]) -> Result<Self, SecretError> {
        let lines = file.split(|byte| *byte == b'\n').enumerate();
        let mut values = Vec::new();
        for (i, line) in lines {
            let line = line.trim_ascii_end();
            if line.is_empty() {
                continue;
            }
            let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
            if !line.iter().all(allowed) {
                return Err(SecretError::Alphabet(i + 1));
            }
            if !(SHORTEST..=LONGEST).contains(&line.len()) {
                return Err(SecretError::Length(i + 1));
            }
            values.push(line.to_vec());
        }
        match values.len() {
            1 | 2 => Ok(Self(values)),
            lines => Err(SecretError::Lines(lines)),
        }
    }

    /// Whether this is one of them. The time of the comparison reveals only whether the length is
    /// right.
    pub fn admit(&self, shown: &[u8]) -> bool {
        let none = Choice::from(0);
        let equal = |value: &Vec<u8>| value.as_slice().ct_eq(shown);
        self.0
            .iter()
            .fold(none, |any, value| any | equal(value))
            .into()
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "0123456789abcdef";
    const NEW: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_";

    #[test]
    fn one_secret_a_line_and_two_at_most() {
        let file = format!("{OLD}\n\n{NEW}\r\n");
        let secrets = Secrets::parse(file.as_bytes()).unwrap();
        for (shown, expected) in [
            (OLD, true),
            (NEW, true),
            ("", false),
            ("0123456789abcdeF", false),
            ("0123456789abcde", false),
            ("0123456789abcdef0", false),
        ] {
            assert_eq!(secrets.admit(shown.as_bytes()), expected, "{shown}");
        }
        assert_eq!(format!("{secrets:?}"), "Secrets(2)");
        let one = Secrets::parse(NEW.as_bytes()).unwrap();
        assert!(one.admit(NEW.as_bytes()) && !one.admit(OLD.as_bytes()));
    }

    #[test]
    fn invalid_secret_is_refused_and_not_printed() {
        for (file, error) in [
            (String::new(), SecretError::Lines(0)),
            (format!("{OLD}\n{OLD}1\n{NEW}"), SecretError::Lines(3)),
            (
                format!("{OLD}\n0123456789{{name}}"),
                SecretError::Alphabet(2),
            ),
            ("0123456789abcde".to_owned(), SecretError::Length(1)),
            ("x".repeat(257), SecretError::Length(1)),
        ] {
            assert_eq!(Secrets::parse(file.as_bytes()), Err(error));
        }
    }
}
