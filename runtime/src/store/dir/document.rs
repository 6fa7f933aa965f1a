//! The documents of a YAML or JSON file, and the lines of their parts.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;
use serde_saphyr::{
    Error, Options, SnippetMode, Spanned, UserMessageFormatter,
    with_deserializer_from_str_with_options,
};

use super::file::MAX_SIZE;

/// A document of a file.
pub(super) struct Document<'a> {
    /// The file before it.
    before: &'a str,
    text: &'a str,
}

/// The documents of a file, without those that have only comments and directives.
pub(super) fn documents(text: &str) -> Vec<Document<'_>> {
    // Neither a text nor a list may have such a line.
    let is_marker = |rest: &str| rest.is_empty() || rest.starts_with(char::is_whitespace);
    let markers = text.match_indices("\n---").map(|(at, _)| at + 1);
    let markers = markers.filter(|at| text.get(at + 3..).is_some_and(is_marker));
    let ends = markers.clone().chain([text.len()]);
    let documents = [0].into_iter().chain(markers).zip(ends);
    let documents = documents.map(|(start, end)| Document {
        before: text.get(..start).unwrap_or_default(),
        text: text.get(start..end).unwrap_or_default(),
    });
    let is_empty = |line: &str| line.trim().is_empty() || line.starts_with(['#', '%']);
    documents
        .filter(|document| !document.text.lines().all(is_empty))
        .collect()
}

impl Document<'_> {
    pub(super) fn parse(&self) -> Result<Value, Error> {
        serde_saphyr::from_str_with_options(self.text, options())
    }

    /// The line of a field such as `spec.egress.0.to`, or else the first line.
    pub(super) fn line_of(&self, field: &str) -> u64 {
        let found = self.find(field).or_else(|| self.find(""));
        self.lines_before() + found.unwrap_or(1)
    }

    /// An error in one line, with its place.
    pub(super) fn fault(&self, error: &Error) -> String {
        let words = error.render_with_options(serde_saphyr::render_options! {
            formatter: &UserMessageFormatter,
            snippets: SnippetMode::Off,
            line_offset: self.lines_before(),
        });
        words.lines().collect::<Vec<_>>().join(" ")
    }

    fn lines_before(&self) -> u64 {
        self.before.lines().count() as u64
    }

    fn find(&self, field: &str) -> Option<u64> {
        let path: Vec<&str> = field.split('.').filter(|it| !it.is_empty()).collect();
        let options = options();
        let found = with_deserializer_from_str_with_options(self.text, options, |it| {
            LineOf(&path).deserialize(it)
        });
        found.ok()?
    }
}

/// Finds the line of the part at a path: that of its key, if it has one.
struct LineOf<'p>(&'p [&'p str]);

impl<'de> DeserializeSeed<'de> for LineOf<'_> {
    type Value = Option<u64>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        if !self.0.is_empty() {
            return from.deserialize_any(self);
        }
        let found = Spanned::<IgnoredAny>::deserialize(from)?;
        Ok(Some(found.referenced.line()))
    }
}

impl<'de> Visitor<'de> for LineOf<'_> {
    type Value = Option<u64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a part with fields")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            match self.0.split_first() {
                Some((first, rest)) if *first == key.value => {
                    let below = map.next_value_seed(LineOf(rest))?;
                    let own = rest.is_empty().then(|| key.referenced.line());
                    found = own.or(below);
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        let Some((index, rest)) = self.0.split_first() else {
            return Ok(None);
        };
        for at in 0.. {
            if index.parse() == Ok(at) {
                found = list.next_element_seed(LineOf(rest))?.flatten();
            } else if list.next_element::<IgnoredAny>()?.is_none() {
                break;
            }
        }
        Ok(found)
    }
}

/// YAML 1.2, with room for the largest file. As in Kubernetes, an unquoted number is no string.
fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 4_000_000,
            max_nodes: 2_000_000,
            max_total_scalar_bytes: MAX_SIZE,
        },
        emit_comments: false,
        strict_booleans: true,
        no_schema: true,
        with_snippet: false,
    }
}

#[cfg(test)]
mod tests;
