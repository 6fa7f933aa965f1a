//! Foreign texts: names in frames, objects and files.

use std::{io, time::Duration};

use serde::Serialize;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter, Serializer};

use crate::timestamp::Timestamp;

/// The longest part of a quoted text, in bytes.
const MAX_TEXT: usize = 64;

/// The text in printable ASCII: it cannot move a cursor, hide or reverse its surroundings.
pub fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            ' '..='~' => printable.push(character),
            _ => printable.extend(character.escape_unicode()),
        }
    }
    printable
}

/// The text in quotes, cut after 64 bytes, without characters that could hide or reverse its surroundings.
pub fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        let shown = printable(character.encode_utf8(&mut [0; 4]));
        if quoted.len() + shown.len() > MAX_TEXT {
            quoted.push('…');
            break;
        }
        quoted += &shown;
    }
    quoted.push('"');
    quoted
}

/// The first of these, and the number of the others: `a, b and 3 more`.
pub fn few<T: ToString>(all: impl ExactSizeIterator<Item = T>, most: usize) -> String {
    let more = all.len().saturating_sub(most);
    let named: Vec<String> = all.take(most).map(|it| it.to_string()).collect();
    match more {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// A duration in its largest useful unit: `8 s`, `3 min`, `5 h`, `9 d`.
pub fn span(span: Duration) -> String {
    match span.as_secs() {
        seconds @ ..120 => format!("{seconds} s"),
        seconds @ ..7_200 => format!("{} min", seconds / 60),
        seconds @ ..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

/// A relative time: `8 s ago`, `in 3 min`, `now`.
pub fn when(at: Timestamp, now: Timestamp) -> String {
    match (at.since(now), now.since(at)) {
        (ahead, _) if !ahead.is_zero() => format!("in {}", span(ahead)),
        (_, ago) if !ago.is_zero() => format!("{} ago", span(ago)),
        _ => "now".to_owned(),
    }
}

/// The value as JSON in printable ASCII; a parser reads the same value back.
///
/// # Errors
/// The value has no JSON form.
pub fn json(value: &impl Serialize) -> serde_json::Result<String> {
    let mut text = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut text, Ascii))?;
    String::from_utf8(text).map_err(serde::ser::Error::custom)
}

/// Compact JSON. serde_json alone does not escape DEL and non-ASCII characters.
struct Ascii;

impl Formatter for Ascii {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        for character in fragment.chars() {
            if matches!(character, ' '..='~') {
                writer.write_all(&[character as u8])?;
                continue;
            }
            for unit in character.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
        }
        Ok(())
    }

    fn write_char_escape<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        CompactFormatter.write_char_escape(writer, escape)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_with_control_or_bidi_characters_is_escaped() {
        assert_eq!(
            printable("a \u{1b}[2J\n\u{202e}\u{9b}é"),
            "a \\u{1b}[2J\\u{a}\\u{202e}\\u{9b}\\u{e9}"
        );
        assert_eq!(
            json(&"\u{1b}\u{7f}\u{9b}\"\\\u{202e}😀").unwrap(),
            r#""\u001b\u007f\u009b\"\\\u202e\ud83d\ude00""#
        );
    }

    #[test]
    fn a_text_of_others_is_one_short_line_of_ascii() {
        assert_eq!(quoted("a_b"), "\"a_b\"");
        assert_eq!(quoted("a\n\u{202e}b"), "\"a\\u{a}\\u{202e}b\"");
        for character in ["x", "\u{10ffff}"] {
            let long = quoted(&character.repeat(1 << 20));
            assert!(
                long.len() <= MAX_TEXT + 4 && long.ends_with("…\""),
                "{long}"
            );
        }
    }

    #[test]
    fn times_are_told_in_one_unit() {
        let at = |seconds: i64| Timestamp::from_millis(seconds * 1000);
        for (second, expected) in [
            (0, "now"),
            (119, "in 119 s"),
            (-120, "2 min ago"),
            (7_199, "in 119 min"),
            (-172_799, "47 h ago"),
            (172_800, "in 2 d"),
        ] {
            assert_eq!(when(at(second), at(0)), expected);
        }
    }

    proptest! {
        #[test]
        fn json_is_printable_and_says_the_same(text in any::<String>()) {
            let written = json(&[&text]).unwrap();
            prop_assert!(written.chars().all(|it| matches!(it, ' '..='~')));
            let read: [String; 1] = serde_json::from_str(&written).unwrap();
            prop_assert_eq!(&read[0], &text);
            let shown = printable(&text);
            prop_assert!(shown.chars().all(|it| matches!(it, ' '..='~')));
            prop_assert_eq!(printable(&shown), shown);
        }
    }
}
