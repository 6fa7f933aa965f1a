//! Whether the address sets are those of the statuses.

use runtime::inspect::text::few;

use super::{
    programs::{MOST_NAMED, Programs, answers, unanswered},
    report::{Finding, Topic},
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
    for (program, sets) in answers(&programs.sets).filter(|(_, sets)| !sets.is_same) {
        let first = few(sets.text.iter(), MOST_NAMED);
        topic.fault(
            format!("they differ from the statuses at the {program}: {first}"),
            "see `egress verify` and the log of this ovn-writer; if another program writes these rows, stop it",
        );
    }
    topic.or_ok(|| {
        let objects = answers(&programs.sets).map(|(_, sets)| sets.objects).max();
        let (objects, places) = (objects.unwrap_or(0), programs.sets.len());
        format!("the same as the statuses of {objects} objects, at {places} ovn-writers")
    })
}
