//! Which facts are asked for.

use std::fmt::Write;

use crate::api::{DnsName, NameError};

/// The selection of a [`Status`](super::Status): the parameters of its URL.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Query {
    /// `name`: only names that contain this text, or whose objects or sets do, ignoring case.
    pub name: String,
    /// `namespace`: only names in rules of this namespace.
    pub namespace: Option<String>,
    /// `after`: only names after this one, which was the last of a page; of a policy-writer the `NAMESPACE/NAME` of a DNSResolver.
    pub after: Option<String>,
    /// `limit`: the most names; 500 at most, and without the parameter.
    pub limit: usize,
    /// `recent`: the most new addresses; none without the parameter.
    pub recent: usize,
}

impl Query {
    /// The most names of a page.
    pub const MOST: usize = 500;

    /// The first page of all names, without new addresses.
    pub fn all() -> Self {
        Self {
            name: String::new(),
            namespace: None,
            after: None,
            limit: Self::MOST,
            recent: 0,
        }
    }

    /// The parameters of a URL, decoded. The last value of a key counts.
    ///
    /// # Errors
    /// A number is none.
    pub fn new<'a>(
        parameters: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, QueryError> {
        let mut query = Self::all();
        for (key, value) in parameters.map(|(key, value)| (key, value.trim())) {
            let number = || {
                let error = || QueryError::Number(key.to_owned());
                value.parse::<usize>().map_err(|_| error())
            };
            let some = || Some(value.to_owned()).filter(|value| !value.is_empty());
            match key {
                "name" => value.clone_into(&mut query.name),
                "namespace" => query.namespace = some(),
                "after" => query.after = some(),
                "limit" => query.limit = number()?.min(Self::MOST),
                "recent" => query.recent = number()?,
                _ => {}
            }
        }
        Ok(query)
    }

    /// The name after which the page begins.
    ///
    /// # Errors
    /// It is no DNS name.
    pub fn after_name(&self) -> Result<Option<DnsName>, QueryError> {
        let after = self.after.as_deref().map(DnsName::parse).transpose();
        after.map_err(QueryError::After)
    }

    /// Whether a text matches `name`.
    pub fn matches(&self, text: &str) -> bool {
        self.name.is_empty()
            || text
                .to_ascii_lowercase()
                .contains(&self.name.to_ascii_lowercase())
    }

    /// The path of the status with these parameters.
    pub fn path(&self) -> String {
        let mut path = format!("{}?limit={}", super::STATUS, self.limit);
        for (key, value) in [
            ("name", Some(&self.name)),
            ("namespace", self.namespace.as_ref()),
            ("after", self.after.as_ref()),
        ] {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                path += &format!("&{key}={}", encoded(value));
            }
        }
        if self.recent > 0 {
            path += &format!("&recent={}", self.recent);
        }
        path
    }
}

/// A text as the value of a parameter (RFC 3986 section 2.1).
pub(super) fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(byte.into());
        } else {
            // Writing to a String cannot fail.
            let _ok = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// A query that cannot be answered.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum QueryError {
    /// The parameter is no number.
    #[error("{0}: it is no number")]
    Number(String),
    /// The parameter `after` is no DNS name.
    #[error("after: {0}")]
    After(NameError),
    /// The parameter `after` is no key of an object.
    #[error("after: {0}")]
    AfterObject(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(parameters: &[(&str, &str)]) -> Result<Query, QueryError> {
        Query::new(parameters.iter().copied())
    }

    #[test]
    fn query_has_the_last_value_of_each_key_and_an_empty_one_is_none() {
        assert_eq!(query(&[]), Ok(Query::all()));
        let asked = query(&[
            ("name", "x"),
            ("name", " W.test "),
            ("namespace", ""),
            ("limit", "900"),
            ("recent", "3"),
            ("other", "y"),
        ]);
        let expected = Query {
            name: "W.test".to_owned(),
            recent: 3,
            ..Query::all()
        };
        assert_eq!(asked, Ok(expected.clone()));
        assert!(expected.matches("www.w.TEST.") && !expected.matches("test."));
        assert_eq!(
            expected.path(),
            "/status.json?limit=500&name=W.test&recent=3"
        );
        let error = query(&[("limit", "-1")]).unwrap_err();
        assert_eq!(error.to_string(), "limit: it is no number");
    }

    #[test]
    fn path_has_each_octet_that_is_special_encoded() {
        assert_eq!(encoded("*.a b/é"), "%2A.a%20b%2F%C3%A9");
        let after = Query {
            after: Some("a b".to_owned()),
            ..Query::all()
        };
        assert!(after.path().ends_with("&after=a%20b"));
        assert!(matches!(after.after_name(), Err(QueryError::After(_))));
    }
}
