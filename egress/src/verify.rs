//! `egress verify`: whether the address sets of OVN, and the policies of DNSResolvers, are those of the statuses.

use clap::Args;
use proto::{
    facts::{Comparison, ObjectReport, PolicyComparison, Program, VERIFY, Verification},
    text::{few, printable},
};
use runtime::UsageError;

use crate::{
    nodes::{OfPolicyWriter, Writers, indented},
    output::{self, Format, MOST_LINES, MOST_NAMED},
    targets::TargetArgs,
};

/// Compares the statuses with OVN's databases and with the objects of DNSResolvers once, and prints the differences.
///
/// Every ovn-writer and the leading policy-writer compare what they have read. Without a running ovn-writer, `ovn-writer --dry-run` prints the
/// same and writes nothing.
///
/// Exit status 0: there are no differences. 1: there are differences. 2: a writer does not answer, or has not read the store or the
/// database.
#[derive(Args, Clone, Debug)]
pub struct VerifyArgs {
    /// The format of the differences.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    pub output: Format,

    #[command(flatten)]
    pub targets: TargetArgs,
}

/// The comparisons of the writers.
type Comparisons = Writers<Comparison, PolicyComparison>;

/// Prints the differences. Returns whether there are none.
///
/// # Errors
/// [`UsageError`]: a side cannot be read, or stdout cannot be written.
pub(crate) async fn run(args: VerifyArgs) -> anyhow::Result<bool> {
    let targets = args.targets.find().await?;
    if targets.all.iter().all(|it| it.kind == Program::Collector) {
        let error = "there is no writer to ask: give --ovn-writer or --policy-writer";
        return Err(UsageError(error.to_owned()).into());
    }
    let parts = |it: Verification| (it.ovn_writer, it.policy_writer);
    let comparisons = Comparisons::ask(&targets, VERIFY, parts).await?;
    output::line(&args.output.render(&comparisons, Comparisons::text)?)?;
    comparisons.outcome()
}

impl Comparisons {
    fn text(&self) -> String {
        let mut lines = Vec::new();
        for group in &self.ovn_writers {
            lines.push(format!("ovn-writer {}:", group.named()));
            lines.extend(indented(&group.answer.to_string()));
        }
        if let Some(OfPolicyWriter { place, answer, .. }) = &self.policy_writer {
            lines.push(format!("policy-writer {}:", printable(place)));
            lines.extend(indented(&of_policies(answer)));
        }
        lines.extend(self.unreachable.iter().map(|it| format!("? {it}")));
        lines.join("\n")
    }

    /// Whether there are no differences.
    fn outcome(&self) -> anyhow::Result<bool> {
        let sets = || self.ovn_writers.iter().map(|it| &it.answer);
        let mut policies = self.policy_writer.iter().map(|it| &it.answer);
        if sets().any(|it| !it.differences.is_empty()) || policies.clone().any(|it| !it.is_same) {
            return Ok(false);
        }
        let unknown = |why: &str| Err(UsageError(format!("unknown: {why}")).into());
        if !self.unreachable.is_empty() {
            return unknown("not every writer answers");
        }
        if let Some(why) = sets().find_map(|it| it.not_compared.as_ref()) {
            return unknown(why);
        }
        // It compares objects that it has not read with nothing.
        if policies.any(|it| it.reasons.iter().any(|reason| reason.code == "NotRead")) {
            return unknown("the policy-writer has not read all kinds of objects");
        }
        Ok(true)
    }
}

fn of_policies(comparison: &PolicyComparison) -> String {
    let shown = comparison.differences.iter().take(MOST_LINES);
    let mut lines: Vec<String> = shown.flat_map(of_object).collect();
    let differing = comparison.differences.len() + comparison.more_differences;
    let more = differing.saturating_sub(MOST_LINES);
    if more > 0 {
        lines.push(format!(
            "and {more} more objects that differ: `-o json` has more"
        ));
    }
    let reasons = comparison.reasons.iter();
    lines.extend(reasons.map(|it| format!("- {}", it.sentence)));
    let mut last = format!(
        "{} DNSResolvers, {} objects: {differing} differ from the statuses",
        comparison.dns_resolvers, comparison.objects
    );
    if comparison.left_out > 0 {
        let left_out = comparison.left_out;
        last += &format!("; addresses left out at a limit: {left_out}");
    }
    lines.push(last);
    lines.join("\n")
}

fn of_object(report: &ObjectReport) -> Vec<String> {
    let mut parts = Vec::from_iter(report.fault.clone());
    for (what, addresses) in [("missing", &report.missing), ("too many", &report.surplus)] {
        if !addresses.is_empty() {
            let addresses = few(addresses.iter(), MOST_NAMED);
            parts.push(format!("{what}: {addresses}"));
        }
    }
    let (namespace, name, parts) = (&report.namespace, &report.name, parts.join("; "));
    let mut lines = vec![format!("{} {namespace}/{name}: {parts}", report.kind)];
    let reasons = report.reasons.iter();
    lines.extend(reasons.map(|it| format!("  - {}", it.sentence)));
    lines
}

#[cfg(test)]
mod tests {
    use proto::facts::Reason;

    use super::*;
    use crate::nodes::Group;

    fn outcome(
        set: Option<Comparison>,
        policies: Option<PolicyComparison>,
    ) -> Result<bool, String> {
        let comparisons = Comparisons {
            ovn_writers: Vec::from_iter(set.map(|answer| Group {
                nodes: vec!["a".to_owned()],
                answer,
            })),
            policy_writer: policies.map(|answer| OfPolicyWriter {
                place: "p".to_owned(),
                leader: true,
                answer,
            }),
            unreachable: Vec::new(),
        };
        comparisons.outcome().map_err(|error| error.to_string())
    }

    #[test]
    fn verify_of_unread_objects_is_an_error() {
        assert_eq!(outcome(Some(Comparison::default()), None), Ok(true));
        let unread = Comparison {
            not_compared: Some("the store cannot be read".to_owned()),
            ..Comparison::default()
        };
        let error = outcome(Some(unread), None).unwrap_err();
        assert!(error.contains("the store cannot be read"), "{error}");
        let with = |code: &str, is_same| PolicyComparison {
            is_same,
            reasons: vec![Reason::new(code, "")],
            ..PolicyComparison::default()
        };
        assert!(outcome(None, Some(with("NotRead", true))).is_err());
        assert_eq!(outcome(None, Some(with("NotLeading", true))), Ok(true));
        assert_eq!(outcome(None, Some(with("NotRead", false))), Ok(false));
    }
}
