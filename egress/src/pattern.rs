//! A pattern of DNS names in a flag.

use std::{convert::Infallible, str::FromStr};

/// A text that names contain, or with `*` a pattern that a whole name matches. Case does not matter.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NamePattern(String);

impl FromStr for NamePattern {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(essence(text)))
    }
}

impl NamePattern {
    /// Whether a name matches. The dot at its end does not matter.
    pub(crate) fn matches(&self, name: &str) -> bool {
        let name = essence(name);
        let mut parts = self.0.split('*');
        let (Some(first), Some(last)) = (parts.next(), parts.next_back()) else {
            return name.contains(&self.0);
        };
        let Some(mut rest) = name.strip_prefix(first) else {
            return false;
        };
        for part in parts {
            match rest.split_once(part) {
                Some((_, behind)) => rest = behind,
                None => return false,
            }
        }
        rest.ends_with(last)
    }

    /// A text that every matching name contains.
    pub(crate) fn longest_part(&self) -> &str {
        let parts = self.0.split('*');
        parts.max_by_key(|part| part.len()).unwrap_or_default()
    }
}

fn essence(text: &str) -> String {
    text.trim_end_matches('.').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_contained_and_a_star_stands_for_any_text_of_the_whole_name() {
        for (pattern, name, expected) in [
            ("example", "www.Example.com.", true),
            ("example.com.", "www.example.com.", true),
            ("example.com", "example.com.org.", true),
            ("", "a.", true),
            ("*.example.com", "www.example.com.", true),
            ("*.Example.com.", "*.example.com.", true),
            ("*.example.com", "example.com.", false),
            ("www.*", "www.example.com.", true),
            ("www.*", "a.www.example.com.", false),
            ("a*b*c", "a.b.b.c.", true),
            ("a*b*c", "a.c.", false),
            ("ab*ba", "aba.", false),
            ("*", "a.", true),
        ] {
            let parsed: NamePattern = pattern.parse().unwrap();
            assert_eq!(parsed.matches(name), expected, "{pattern} {name}");
            let contains = name.to_ascii_lowercase().contains(parsed.longest_part());
            assert!(!expected || contains, "{pattern} {name}");
        }
    }
}
