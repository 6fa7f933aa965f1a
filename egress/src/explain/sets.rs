//! What an ovn-writer knows, as text.

use std::time::Duration;

use proto::{
    facts::{Asked, NameExplained, RowExplained, SetsExplained},
    text::{printable, span},
};

use super::more;
use crate::output::MOST_LINES;

/// All lines, in printable ASCII.
/// `but`: what the sets lack of the name.
pub(super) fn lines(explained: &SetsExplained, asked: &Asked, but: &str) -> Vec<String> {
    let mut reasons = explained.reasons.iter();
    let is = match explained.is_there {
        true => "is",
        false if reasons.any(|it| it.code == "NoDatabase") => "may be",
        false => "is not",
    };
    let (about, whose) = (asked.text(), asked.whose());
    let but = if explained.is_there { but } else { "" };
    let mut lines = vec![format!(
        "{about} {is} in a set that rules refer to{whose}{but}."
    )];
    for name in explained.names.iter().take(MOST_LINES) {
        of_name(name, &mut lines);
    }
    let beyond = explained.names.len().saturating_sub(MOST_LINES) + explained.more_names;
    more(&mut lines, "  ", beyond, "names");
    let reasons = explained.reasons.iter();
    lines.extend(reasons.map(|reason| format!("- {}", reason.sentence)));
    lines.iter().map(|line| printable(line)).collect()
}

fn of_name(name: &NameExplained, lines: &mut Vec<String>) {
    let objects = match name.objects.as_slice() {
        [] => "no object".to_owned(),
        objects => {
            let shown = objects.iter().take(MOST_LINES).cloned().collect::<Vec<_>>();
            format!("object {}", shown.join(", "))
        }
    };
    lines.push(format!("{}: {objects}", name.name));
    for row in name.rows.iter().take(MOST_LINES) {
        of_row(row, lines);
    }
    if !name.differences.is_empty() {
        lines.push("  different from the store:".to_owned());
        let shown = name.differences.iter().take(MOST_LINES);
        lines.extend(shown.map(|set| {
            let line = format!("    {set}");
            line.chars().take(500).collect()
        }));
        more(
            lines,
            "    ",
            name.differences.len().saturating_sub(MOST_LINES),
            "sets",
        );
    }
}

fn of_row(row: &RowExplained, lines: &mut Vec<String>) {
    let of = match row.controller.as_str() {
        "" => String::new(),
        controller => format!(" of {controller}"),
    };
    let (set, family, uuid) = (&row.set, &row.family, &row.uuid);
    lines.push(format!("  row {set} ({family}{of}, {uuid})"));
    for address in row.addresses.iter().take(MOST_LINES) {
        let mut line = format!("    {}: ", address.address);
        line += &match address.since_seconds {
            Some(seconds) => format!("written {} ago", span(Duration::from_secs(seconds))),
            None => "written before this run, or long ago".to_owned(),
        };
        if !address.is_wanted {
            line += "; the store does not want it";
        }
        lines.push(line);
    }
    let beyond = row.addresses.len().saturating_sub(MOST_LINES) + row.more_addresses;
    more(lines, "    ", beyond, "addresses");
    let rules = row.rules.iter().take(MOST_LINES);
    lines.extend(rules.map(|rule| format!("    {rule}")));
    let beyond = row.rules.len().saturating_sub(MOST_LINES) + row.more_rules;
    more(lines, "    ", beyond, "rules");
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
