//! The status of a `DNSResolver`.

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff,
};
use proto::api::DnsResolverStatus;
use runtime::clock::Timestamp;

/// The most names in a message.
const MOST_NAMES: usize = 20;

/// The most characters of one text in a message.
const MOST_CHARACTERS: usize = 254;

/// The content of a condition.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Statement {
    pub kind: &'static str,
    pub is_true: bool,
    pub reason: &'static str,
    pub message: String,
}

impl Statement {
    /// A condition of this type.
    pub fn new(
        kind: &'static str,
        is_true: bool,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        let message = message.into();
        Self {
            kind,
            is_true,
            reason,
            message,
        }
    }

    /// Whether it needs no administrator.
    pub fn is_good(&self) -> bool {
        kinds::is_good(self.kind, self.is_true)
    }
}

/// The types of conditions.
pub mod kinds {
    /// Each name has been answered once.
    pub const RESOLVED: &str = "Resolved";
    /// All objects are written.
    pub const WRITTEN: &str = "Written";
    /// An object of the same name has another controller.
    pub const NAME_TAKEN: &str = "NameTaken";
    /// Addresses are left out.
    pub const LIMIT_EXCEEDED: &str = "LimitExceeded";
    /// No NetworkPolicy lets the pods reach DNS.
    pub const DNS_BLOCKED: &str = "DNSBlocked";

    /// Those of `status.ready`.
    pub const OF_READINESS: [&str; 3] = [RESOLVED, WRITTEN, NAME_TAKEN];

    /// Whether a condition needs no administrator.
    pub fn is_good(kind: &str, is_true: bool) -> bool {
        is_true == [RESOLVED, WRITTEN].contains(&kind)
    }
}

/// The status with these conditions. It equals the one before if nothing but times would change.
pub(super) fn status(
    ready: bool,
    statements: &[Statement],
    generation: Option<i64>,
    before: &DnsResolverStatus,
    now: Timestamp,
) -> DnsResolverStatus {
    let conditions = statements.iter().map(|statement| {
        let status = if statement.is_true { "True" } else { "False" };
        let old = before
            .conditions
            .iter()
            .find(|old| old.type_ == statement.kind);
        let since = old.filter(|old| old.status == status);
        let time = since.map(|old| old.last_transition_time.clone());
        Condition {
            type_: statement.kind.to_owned(),
            status: status.to_owned(),
            reason: statement.reason.to_owned(),
            message: statement.message.clone(),
            observed_generation: generation,
            last_transition_time: time.unwrap_or_else(|| at(now)),
        }
    });
    DnsResolverStatus {
        ready,
        conditions: conditions.collect(),
    }
}

/// In whole seconds, as the API stores it.
fn at(now: Timestamp) -> Time {
    let time = jiff::Timestamp::from_millisecond(now.floor_second().as_millis());
    Time(time.unwrap_or_default())
}

/// Names in one line, at most 20.
pub fn some_names<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names = names.into_iter();
    let cut = |name: &str| name.chars().take(MOST_CHARACTERS).collect::<String>();
    let first: Vec<String> = names.by_ref().take(MOST_NAMES).map(cut).collect();
    let more = names.count();
    let listed = first.join(", ");
    if more == 0 {
        listed
    } else {
        format!("{listed} and {more} more")
    }
}
