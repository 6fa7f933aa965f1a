//! Whether the address sets are those of the statuses.

use super::{
    programs::{Faults, MOST_NAMED, Programs, answers, unanswered},
    report::{Finding, Topic, counted},
};

/// The sets of all databases; `has_none` says why no ovn-writer compares them, if there should be none.
pub(crate) fn sets(programs: &Programs, has_none: Option<&str>) -> Vec<Finding> {
    let mut topic = Topic::new("Address sets");
    if programs.sets.is_empty() {
        match has_none {
            Some(why) => topic.warn(
                format!("not compared with the statuses: {why}"),
                "see docs/troubleshooting.md#see-the-address-sets",
            ),
            None => topic.unknown(
                "no ovn-writer runs that compares them",
                "see the lines above",
            ),
        }
        return topic.into();
    }
    unanswered(&mut topic, &programs.sets);
    let mut faults = Faults::default();
    for (program, sets) in answers(&programs.sets).filter(|(_, sets)| !sets.is_same) {
        let lines: Vec<&str> = sets
            .text
            .iter()
            .take(MOST_NAMED)
            .map(|line| line.trim())
            .collect();
        let seen = format!("they differ from the statuses: {}", lines.join("; "));
        let remedy = "see `egress verify` and the log of this ovn-writer; if another program writes these rows, stop it";
        faults.add(program, seen, remedy.to_owned());
    }
    faults.tell(&mut topic);
    topic.or_ok(|| {
        let objects = answers(&programs.sets).map(|(_, sets)| sets.objects).max();
        let objects = counted(objects.unwrap_or(0), "object");
        let places = counted(programs.sets.len(), "ovn-writer");
        format!("the same as the statuses of {objects}, at {places}")
    })
}
