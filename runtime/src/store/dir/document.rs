//! The documents of a YAML or JSON file, and the lines of their parts.

use std::{fmt, marker::PhantomData};

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

/// How many parts all aliases of a file may repeat.
const MAX_REPLAYED: usize = 100_000;

/// A document of a file, or an item of a list in it.
pub(super) struct Document<'a> {
    /// The file before it.
    before: &'a str,
    text: &'a str,
    /// Where the item is, such as `items.0`.
    path: String,
    /// The number of documents in the file.
    siblings: usize,
}

/// The documents of a file, without those that have only comments and directives.
pub(super) fn documents(text: &str) -> Vec<Document<'_>> {
    // Neither a text nor a list may have such a line.
    let is_marker = |rest: &str| rest.is_empty() || rest.starts_with(char::is_whitespace);
    let markers = text.match_indices("\n---").map(|(at, _)| at + 1);
    let markers = markers.filter(|at| text.get(at + 3..).is_some_and(is_marker));
    let starts: Vec<usize> = [0].into_iter().chain(markers).collect();
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    let documents = starts.iter().zip(ends).map(|(start, end)| Document {
        before: text.get(..*start).unwrap_or_default(),
        text: text.get(*start..end).unwrap_or_default(),
        path: String::new(),
        siblings: starts.len(),
    });
    let is_empty = |line: &str| line.trim().is_empty() || line.starts_with(['#', '%']);
    documents
        .filter(|document| !document.text.lines().all(is_empty))
        .collect()
}

impl Document<'_> {
    /// An item of the list that the document is.
    pub(super) fn item(&self, index: usize) -> Self {
        let path = format!("items.{index}");
        Self { path, ..*self }
    }

    pub(super) fn parse(&self) -> Result<Value, Error> {
        serde_saphyr::from_str_with_options(self.text, options(self.siblings))
    }

    /// Why it is no `T`, with the line; `None` if it is one.
    pub(super) fn fault_of<T: for<'de> Deserialize<'de>>(&self) -> Option<String> {
        let error = self.find::<T>("").err()?;
        Some(self.fault(&error))
    }

    /// The line of a field such as `spec.egress.0.to`, or else the first line.
    pub(super) fn line_of(&self, field: &str) -> u64 {
        let mut found = [field, ""]
            .into_iter()
            .map(|it| self.find::<IgnoredAny>(it));
        let found = found.find_map(|found| found.ok().flatten());
        self.lines_before() + found.map_or(1, |(line, _)| line)
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

    fn find<T: for<'de> Deserialize<'de>>(&self, field: &str) -> Result<Option<(u64, T)>, Error> {
        let path = self.path.split('.').chain(field.split('.'));
        let path: Vec<&str> = path.filter(|it| !it.is_empty()).collect();
        let part = At {
            path: &path,
            line: None,
            kind: PhantomData,
        };
        let options = options(self.siblings);
        with_deserializer_from_str_with_options(self.text, options, |it| part.deserialize(it))
    }
}

/// The part of a document at a path, with its line, which is that of its key if it has one.
struct At<'p, T> {
    path: &'p [&'p str],
    line: Option<u64>,
    kind: PhantomData<T>,
}

impl<T> At<'_, T> {
    fn below(&self, line: Option<u64>) -> Self {
        Self {
            path: self.path.get(1..).unwrap_or_default(),
            line,
            kind: PhantomData,
        }
    }
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for At<'_, T> {
    type Value = Option<(u64, T)>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        if !self.path.is_empty() {
            return from.deserialize_any(self);
        }
        let found = Spanned::<T>::deserialize(from)?;
        let line = self.line.unwrap_or(found.referenced.line());
        Ok(Some((line, found.value)))
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for At<'_, T> {
    type Value = Option<(u64, T)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a part with fields")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            if self.path.first() == Some(&&*key.value) {
                let line = key.referenced.line();
                found = map.next_value_seed(self.below(Some(line)))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let index = self.path.first().and_then(|it| it.parse().ok());
        for _ in 0..index.unwrap_or(0) {
            list.next_element::<IgnoredAny>()?;
        }
        let found = list.next_element_seed(self.below(None))?;
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(found.flatten())
    }
}

/// YAML 1.2, with room for the largest file. As in Kubernetes, an unquoted number is no string.
fn options(siblings: usize) -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 4_000_000,
            max_nodes: 2_000_000,
            max_total_scalar_bytes: MAX_SIZE,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_REPLAYED / siblings },
        emit_comments: false,
        strict_booleans: true,
        no_schema: true,
        with_snippet: false,
    }
}

#[cfg(test)]
mod tests;
