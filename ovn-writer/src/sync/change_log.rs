//! The recent changes of sets, for people. It is bounded: the last changed names, and the last changes of each.

use std::{collections::VecDeque, fmt, net::IpAddr, num::NonZeroUsize, time::Instant};

use lru::LruCache;
use proto::api::{DnsName, Family};
use serde::Serialize;
use smol_str::SmolStr;

use super::{
    change::Change,
    plan::{Finding, Trigger},
    queue::StoreChange,
};

/// The maximum number of names.
const NAMES: NonZeroUsize = NonZeroUsize::new(512).unwrap();

/// The maximum number of changes per name.
const OF_NAME: usize = 8;

/// The maximum number of members per change; the rest is counted.
const MEMBERS: usize = 16;

#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Cause {
    /// The store changed.
    Store,
    /// A read of the database found a difference.
    Reading,
    /// Another client had changed or deleted it.
    Repair,
}

impl Cause {
    /// `since` is the change of the store, if there was one.
    pub(super) fn of(trigger: Trigger, since: Option<StoreChange>) -> Self {
        match (trigger, since.is_some_and(|since| !since.is_first_list)) {
            (Trigger::ForeignChange, _) => Self::Repair,
            (Trigger::Store, true) => Self::Store,
            (Trigger::Store, false) => Self::Reading,
        }
    }
}

/// A change of a set that took effect.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoggedChange {
    #[serde(skip)]
    pub at: Instant,
    pub cause: Cause,
    pub family: Family,
    pub created: bool,
    pub deleted: bool,
    /// Added addresses, at most 16.
    pub inserted: Box<[IpAddr]>,
    /// The number of further ones.
    pub more_inserted: usize,
    /// Removed members, as they were written, at most 16.
    pub removed: Box<[Box<str>]>,
    /// The number of further ones.
    pub more_removed: usize,
}

/// The entries, by name.
#[derive(Debug)]
pub(crate) struct ChangeLog(LruCache<DnsName, VecDeque<LoggedChange>>);

impl Default for ChangeLog {
    fn default() -> Self {
        Self(LruCache::new(NAMES))
    }
}

impl ChangeLog {
    /// Records the changes of a name. `since` is the change of the store, if there was one.
    pub(super) fn note(
        &mut self,
        name: &DnsName,
        since: Option<StoreChange>,
        findings: &[Finding],
        now: Instant,
    ) {
        let entries = self.0.get_or_insert_mut(name.clone(), VecDeque::new);
        for Finding {
            change, trigger, ..
        } in findings
        {
            let cause = Cause::of(*trigger, since);
            if entries.len() >= OF_NAME {
                entries.pop_front();
            }
            entries.push_back(LoggedChange::of(change, cause, now));
        }
    }

    /// The changes of a name, the latest first.
    pub(crate) fn of(&self, name: &DnsName) -> impl Iterator<Item = &LoggedChange> {
        self.0.peek(name).into_iter().flat_map(|it| it.iter().rev())
    }
}

impl LoggedChange {
    fn of(change: &Change, cause: Cause, at: Instant) -> Self {
        let (mut inserted, mut removed): (&[IpAddr], &[SmolStr]) = (&[], &[]);
        let mut more_removed = 0;
        match change {
            Change::Create { addresses, .. } => inserted = addresses,
            Change::Mutate { insert, delete, .. } => (inserted, removed) = (insert, delete),
            Change::Delete { members, .. } => more_removed = *members,
        }
        let shown = removed.iter().take(MEMBERS).map(|member| {
            // Another client may have written any text.
            member.chars().take(64).collect::<String>().into()
        });
        Self {
            at,
            cause,
            family: change.family(),
            created: change.is_creation(),
            deleted: matches!(change, Change::Delete { .. }),
            inserted: inserted.iter().take(MEMBERS).copied().collect(),
            more_inserted: inserted.len().saturating_sub(MEMBERS),
            removed: shown.collect(),
            more_removed: more_removed + removed.len().saturating_sub(MEMBERS),
        }
    }
}

/// The changes of findings, for a log line.
pub(super) struct ChangesText<'a>(pub(super) &'a [Finding]);

impl fmt::Display for ChangesText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        self.0.iter().try_for_each(|finding| {
            let separator = std::mem::replace(&mut separator, "; ");
            write!(f, "{separator}{}", finding.change)
        })
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::{
        sync::{plan::Verdict, set_of::SetOf},
        testing::dns,
    };

    fn note(
        log: &mut ChangeLog,
        name: &str,
        trigger: Trigger,
        since: Option<StoreChange>,
        count: u32,
    ) {
        let finding = Finding {
            change: insert(count),
            verdict: Verdict::Now,
            trigger,
            is_conflict: false,
        };
        log.note(&dns(name), since, &[finding], Instant::now());
    }

    fn insert(count: u32) -> Change {
        Change::Mutate {
            uuid: Uuid::nil(),
            family: Family::V4,
            insert: (1..=count)
                .map(|i| std::net::Ipv4Addr::from(i).into())
                .collect(),
            delete: vec!["x".repeat(1_000).into()],
        }
    }

    #[test]
    fn a_log_line_names_what_is_different_but_not_tens_of_thousands() {
        let insert: Vec<IpAddr> = (0..50_000_u32)
            .map(|n| std::net::Ipv4Addr::from(0x0a00_0000 + n).into())
            .collect();
        let mutate = |insert: &[IpAddr], delete| Change::Mutate {
            uuid: Uuid::nil(),
            family: Family::V4,
            insert: insert.to_vec(),
            delete,
        };
        let delete = Change::Delete {
            uuid: Uuid::nil(),
            family: Family::V6,
            store: "kube/ns".into(),
            members: 2,
        };
        let finding = |change| Finding {
            change,
            verdict: Verdict::Now,
            trigger: Trigger::Store,
            is_conflict: false,
        };
        let changes = [mutate(&insert[..1], vec!["x".into()]), delete].map(finding);
        assert_eq!(
            ChangesText(&changes).to_string(),
            "mutate v4 +10.0.0.0 -x; delete v6 with 2 members"
        );
        let create = Change::Create {
            set: SetOf::default_network(Family::V4),
            addresses: insert.clone(),
            store: "kube/ns".into(),
            is_managed: false,
        };
        for (change, start) in [
            (create, "create v4 of default-network-controller +10.0.0.0 "),
            (mutate(&insert, vec![]), "mutate v4 +10.0.0.0 "),
        ] {
            let line = ChangesText(&[finding(change)]).to_string();
            assert!(
                line.starts_with(start) && line.ends_with(" +10.0.0.9 +(49990 more)"),
                "{line}"
            );
        }
    }

    #[test]
    fn a_change_is_known_with_its_cause_and_a_bounded_part_of_its_members() {
        let mut log = ChangeLog::default();
        let change = |is_first_list| {
            let at = Instant::now();
            Some(StoreChange { at, is_first_list })
        };
        let now = change(false);
        for (trigger, since, cause) in [
            (Trigger::Store, now, Cause::Store),
            (Trigger::Store, None, Cause::Reading),
            (Trigger::Store, change(true), Cause::Reading),
            (Trigger::ForeignChange, now, Cause::Repair),
        ] {
            note(&mut log, "a.example.com.", trigger, since, 20);
            let entry = log.of(&dns("a.example.com.")).next().unwrap();
            assert_eq!(entry.cause, cause);
            assert_eq!((entry.inserted.len(), entry.more_inserted), (16, 4));
            assert_eq!((entry.removed[0].len(), entry.more_removed), (64, 0));
        }
    }

    #[test]
    fn however_much_is_done_a_bounded_part_is_known() {
        let mut log = ChangeLog::default();
        for name in 0..1_000 {
            for _ in 0..10 {
                let name = format!("n{name}.example.com.");
                note(&mut log, &name, Trigger::Store, None, 1);
            }
        }
        assert_eq!(log.0.len(), NAMES.get());
        assert_eq!(log.of(&dns("n999.example.com.")).count(), OF_NAME);
        assert_eq!(log.of(&dns("n0.example.com.")).count(), 0);
    }
}
