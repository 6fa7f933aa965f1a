//! Standbys write because no leader does, as in a rollout of the collectors.

use super::*;
use crate::objects::standby::SPREAD;

/// During a rollout there is no leader for up to two seconds, and each standby may be the next to
/// end.
#[test]
fn the_next_standby_is_no_later_when_one_ends_that_wrote_leaderless() {
    let mut pair = Pair::new();
    pair.leader.controller.lead(false, at(pair.leader.now));
    pair.leader.controller.objects.standby.spread = SPREAD / 2;
    pair.standby.objects.standby.spread = SPREAD;
    pair.tell(WWW, "1.1.1.1", BOTH);
    pair.run(2_300);
    assert_eq!(
        pair.stored,
        [2, 0],
        "the object of the name, and that of its wildcard"
    );
    pair.is_cut_off = true;
    pair.tell(WWW, "2.2.2.2", BOTH);
    pair.run(2_300);
    assert_eq!(pair.stored, [2, 2]);
}

#[test]
fn addresses_missing_for_a_second_are_written_with_one_that_is_due() {
    let mut pair = Pair::new();
    pair.tell(WWW, "1.1.1.1", STANDBY);
    pair.run(900);
    pair.tell(WWW, "2.2.2.2", STANDBY);
    pair.run(900);
    pair.tell(WWW, "3.3.3.3", STANDBY);
    pair.run(400);
    assert_eq!(pair.www(), "www.example.com. 1.1.1.1 2.2.2.2");
    assert_eq!(pair.stored, [0, 2]);
}
