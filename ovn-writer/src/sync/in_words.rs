//! Changes in a line of the log.

use std::fmt;

use super::plan::Finding;

/// Changes as they stand in a log line.
pub(super) struct InWords<'a>(pub(super) &'a [Finding]);

impl fmt::Display for InWords<'_> {
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
    use std::net::IpAddr;

    use proto::api::Family;
    use uuid::Uuid;

    use super::*;
    use crate::sync::{
        change::Change,
        plan::{Trigger, Verdict},
        set_of::SetOf,
    };

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
            is_wanted: true,
            is_taken: false,
        };
        let changes = [mutate(&insert[..1], vec!["x".into()]), delete].map(finding);
        assert_eq!(
            InWords(&changes).to_string(),
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
            let line = InWords(&[finding(change)]).to_string();
            assert!(
                line.starts_with(start) && line.ends_with(" +10.0.0.9 +(49990 more)"),
                "{line}"
            );
        }
    }
}
