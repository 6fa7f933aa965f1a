//! The explanation as lines of text.

use std::time::Duration;

use runtime::inspect::{
    Asked, Subject,
    text::{printable, span},
};

use super::{Changed, Explanation, NameExplained, RowExplained};
use crate::sync::change_log::Cause;

/// The maximum number of lines of a kind; the rest is counted. The JSON has more.
const MOST: usize = 40;

/// All lines, in printable ASCII.
pub(super) fn lines(explanation: &Explanation, asked: &Asked) -> Vec<String> {
    let is = if explanation.is_there { "is" } else { "is not" };
    let what = match asked.subject {
        Ok(Subject::Address(_)) => "in a set that rules refer to",
        _ => "in a set that rules refer to",
    };
    let mut lines = vec![format!(
        "{} {is} {what}{}.",
        explanation.about,
        asked.whose()
    )];
    for name in explanation.names.iter().take(MOST) {
        of_name(name, &mut lines);
    }
    more(
        &mut lines,
        explanation.names.len(),
        explanation.more_names,
        "names",
    );
    let reasons = explanation.reasons.iter();
    lines.extend(reasons.map(|reason| format!("- {}", reason.words)));
    lines.iter().map(|line| printable(line)).collect()
}

fn of_name(name: &NameExplained, lines: &mut Vec<String>) {
    let objects = match name.objects.as_slice() {
        [] => "no object".to_owned(),
        objects => {
            let shown = objects.iter().take(MOST).cloned().collect::<Vec<_>>();
            format!("object {}", shown.join(", "))
        }
    };
    lines.push(format!("{}: {objects}", name.name));
    for row in name.rows.iter().take(MOST) {
        of_row(row, lines);
    }
    if let Some(differences) = &name.differences {
        lines.push("  different from the store:".to_owned());
        // A line above has the name.
        let shown = differences.to_string();
        let shown: Vec<_> = shown.lines().skip(1).collect();
        lines.extend(shown.iter().take(MOST).map(|line| {
            let mut line: String = line.chars().take(500).collect();
            line.insert_str(0, "  ");
            line
        }));
        more(lines, shown.len(), 0, "lines");
    }
    lines.extend(
        name.history
            .iter()
            .map(|changed| format!("  {}", of_change(changed))),
    );
}

fn of_row(row: &RowExplained, lines: &mut Vec<String>) {
    let of = match row.controller.as_str() {
        "" => String::new(),
        controller => format!(" of {controller}"),
    };
    let (set, family, uuid) = (&row.set, row.family, row.uuid);
    lines.push(format!("  row {set} ({family}{of}, {uuid})"));
    for address in row.addresses.iter().take(MOST) {
        let mut line = format!("    {}: ", address.address);
        line += &match address.since_seconds {
            Some(seconds) => format!("written {} ago", span(Duration::from_secs(seconds))),
            None => "written before this run, or before the recorded history".to_owned(),
        };
        if !address.is_wanted {
            line += "; the store does not want it";
        }
        lines.push(line);
    }
    more(lines, row.addresses.len(), row.more_addresses, "addresses");
    lines.extend(
        row.rules
            .iter()
            .take(MOST)
            .map(|rule| format!("    {rule}")),
    );
    more(lines, row.rules.len(), row.more_rules, "rules");
    if row.rules.is_empty() {
        lines.push("    nothing that counts refers to it".to_owned());
    }
    if row.rules_elsewhere > 0 {
        lines.push(format!(
            "    rules of other namespaces that refer to it: {}",
            row.rules_elsewhere
        ));
    }
}

fn of_change(changed: &Changed) -> String {
    let ago = span(Duration::from_secs(changed.seconds_ago));
    let entry = &changed.entry;
    let what = match (entry.cause, entry.created, entry.deleted) {
        (Cause::Repair, true, _) => {
            "made anew, as somebody else had removed it or it was forgotten"
        }
        (Cause::Repair, ..) => "repaired after a change by another client",
        (_, true, _) => "made",
        (_, _, true) => "deleted, since it was not needed",
        (Cause::Reading, ..) => "corrected after the store and the database were read",
        _ => "changed after a change of the store",
    };
    let mut line = format!("{ago} ago the {} set was {what}:", entry.family);
    let texts = |sign: char, members: Vec<String>, more: usize| {
        let texts = members.into_iter().map(move |it| format!(" {sign}{it}"));
        texts.chain((more > 0).then(|| format!(" {sign}{more} more")))
    };
    let inserted = entry.inserted.iter().map(ToString::to_string).collect();
    let removed = entry.removed.iter().map(ToString::to_string).collect();
    line.extend(texts('+', inserted, entry.more_inserted));
    line.extend(texts('-', removed, entry.more_removed));
    line
}

fn more(lines: &mut Vec<String>, shown: usize, beyond: usize, what: &str) {
    let more = shown.saturating_sub(MOST) + beyond;
    if more > 0 {
        lines.push(format!("    and {more} more {what}: `-o json` has more"));
    }
}
