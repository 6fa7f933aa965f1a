//! The faults of an EgressFirewall.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use proto::text::quoted;

/// The most subjects kept for each fault; the others are counted.
const MAX_LISTED: usize = 100;

/// The most subjects in a note, which has 1,024 bytes.
const MAX_NAMED: usize = 4;

/// A kind of fault.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Fault {
    /// No DNSNameResolver can have the name of a rule: the rule has no effect.
    NameRefused,
    /// A rule has no destination that is known here, such as `to: {dnsname: …}`.
    NoDestination,
    /// A Deny rule has a name: traffic to an address is not blocked until an answer had it.
    DenyRuleByName,
    /// A name is in an Allow rule and in a Deny rule of the same EgressFirewall.
    AllowedAndDenied,
    /// An annotation is no duration.
    AnnotationIgnored,
    /// An annotation exceeds the administrator's ceiling.
    AnnotationClamped,
    /// There are more rules than ovn-kubernetes applies.
    TooManyRules,
    /// The objects of the namespace have too many names together.
    ObjectLeftOut,
}

impl Fault {
    /// The reason of the Event.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NameRefused => "NameRefused",
            Self::NoDestination => "NoDestination",
            Self::DenyRuleByName => "DenyRuleByName",
            Self::AllowedAndDenied => "AllowedAndDenied",
            Self::AnnotationIgnored => "AnnotationIgnored",
            Self::AnnotationClamped => "AnnotationClamped",
            Self::TooManyRules => "TooManyRules",
            Self::ObjectLeftOut => "LimitExceeded",
        }
    }

    /// Whether the rules are applied as they are written, and the fault is an advice.
    pub fn is_advice(self) -> bool {
        matches!(self, Self::DenyRuleByName | Self::AnnotationClamped)
    }

    /// Whether a subject of [`Fault::NameRefused`] is a rule with this text as its name. The dot at its end does not matter.
    pub fn is_about(subject: &str, text: &str) -> bool {
        [text, text.trim_end_matches('.')].into_iter().any(|text| {
            let rest = subject.strip_prefix(quoted(text).as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        })
    }

    /// The explanation, which the subjects follow.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::NameRefused => {
                "rules have no effect, since their names are not valid here: an Allow rule opens nothing, and a Deny rule blocks nothing"
            }
            Self::NoDestination => {
                "rules have no effect, since `to` has none of dnsName, cidrSelector and nodeSelector (upper and lower case count)"
            }
            Self::DenyRuleByName => {
                "Deny rules have a name, and block an address only after it was in an answer (deny networks by cidrSelector to block it before)"
            }
            Self::AllowedAndDenied => {
                "names are in both an Allow and a Deny rule: for their addresses the rule that comes first decides"
            }
            Self::AnnotationIgnored => {
                "annotations are ignored, since they are no durations such as 30s"
            }
            Self::AnnotationClamped => {
                "annotations are above the administrator's maximum, which counts instead"
            }
            Self::TooManyRules => "rules are over the limit of 8,000 and are ignored",
            Self::ObjectLeftOut => {
                "names have no effect, since the objects of this kind in the namespace have more than 20,000 names together. This object is left \
                 out until it changes. Use fewer names"
            }
        }
    }
}

/// The faults of one EgressFirewall.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Faults(BTreeMap<Fault, Subjects>);

/// The subjects of a fault.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Subjects {
    pub count: usize,
    /// At most 100 of them, one line each, which need escaping for HTML only.
    pub listed: BTreeSet<String>,
}

impl Faults {
    pub(crate) fn add(&mut self, fault: Fault, subject: impl Into<String>) {
        let subjects = self.0.entry(fault).or_default();
        subjects.count += 1;
        if subjects.listed.len() < MAX_LISTED {
            subjects.listed.insert(subject.into());
        }
    }

    /// Adds subjects without a name.
    pub(super) fn count(&mut self, fault: Fault, count: usize) {
        self.0.entry(fault).or_default().count += count;
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The subjects of one fault, if there is that fault.
    pub fn get(&self, fault: Fault) -> Option<&Subjects> {
        self.0.get(&fault)
    }

    pub fn iter(&self) -> impl Iterator<Item = (Fault, &Subjects)> {
        self.0.iter().map(|(fault, subjects)| (*fault, subjects))
    }

    /// A note for each fault. It changes when the subjects do.
    pub fn notes(&self) -> impl Iterator<Item = (Fault, String)> {
        self.iter().map(|(fault, subjects)| {
            let note = format!("{} {}{subjects}", subjects.count, fault.meaning());
            (fault, note)
        })
    }
}

/// `: a, b and 3 more`, or nothing if none has a name.
impl fmt::Display for Subjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = self.listed.len().min(MAX_NAMED);
        for (i, subject) in self.listed.iter().take(named).enumerate() {
            write!(f, "{}{subject}", if i == 0 { ": " } else { ", " })?;
        }
        match self.count.saturating_sub(named) {
            more @ 1.. if named > 0 => write!(f, " and {more} more"),
            _ => Ok(()),
        }
    }
}
