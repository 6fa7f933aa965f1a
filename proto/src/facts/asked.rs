//! The subject of a query.

use std::{net::IpAddr, str::FromStr};

use super::query::encoded;
use crate::{address::canonical, api::DnsName};

/// A name or an address.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Subject {
    /// A name, or a wildcard as written in a rule.
    Name(DnsName),
    /// An address, in canonical form.
    Address(IpAddr),
}

/// A query.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The subject, or a text that can be no name of a rule, and why.
    pub subject: Result<Subject, (String, String)>,
    /// Only the rules of this namespace count.
    pub namespace: Option<String>,
}

impl Asked {
    /// Parses the user's text.
    pub fn new(about: &str, namespace: Option<String>) -> Self {
        let address = IpAddr::from_str(about).map(canonical);
        let subject = match address {
            Ok(address) => Ok(Subject::Address(address)),
            Err(_) => match DnsName::parse(about) {
                Ok(name) => Ok(Subject::Name(name)),
                Err(error) => Err((about.to_owned(), error.to_string())),
            },
        };
        Self { subject, namespace }
    }

    /// The name with its trailing dot, or the address; the original text if it is neither.
    pub fn text(&self) -> String {
        match &self.subject {
            Ok(Subject::Name(name)) => name.to_string(),
            Ok(Subject::Address(address)) => address.to_string(),
            Err((text, _)) => text.clone(),
        }
    }

    /// The path of the explanation.
    pub fn path(&self) -> String {
        let mut path = format!("{}?about={}", super::EXPLAIN, encoded(&self.text()));
        if let Some(namespace) = &self.namespace {
            path += &format!("&namespace={}", encoded(namespace));
        }
        path
    }

    /// ` for namespace NAME`, if the query has one.
    pub fn whose(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!(" for namespace {namespace}"),
            None => String::new(),
        }
    }
}
