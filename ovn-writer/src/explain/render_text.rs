//! The explanation as lines of text.

use std::time::Duration;

use runtime::inspect::{
    Asked,
    text::{printable, span},
};

use super::{Explanation, NO_DATABASE, NameExplained, RowExplained};

/// The maximum number of lines of a kind; the rest is counted. The JSON has more.
const MOST: usize = 40;

/// All lines, in printable ASCII.
pub(super) fn lines(explanation: &Explanation, asked: &Asked) -> Vec<String> {
    let reasons = &explanation.reasons;
    let is = match explanation.is_there {
        true => "is",
        false if reasons.iter().any(|it| it.reason == NO_DATABASE) => "may be",
        false => "is not",
    };
    let mut lines = vec![format!(
        "{} {is} in a set that rules refer to{}.",
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
            None => "written before this run, or long ago".to_owned(),
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

fn more(lines: &mut Vec<String>, shown: usize, beyond: usize, what: &str) {
    let more = shown.saturating_sub(MOST) + beyond;
    if more > 0 {
        lines.push(format!("    and {more} more {what}: `-o json` has more"));
    }
}
