//! Several standbys and no leader, as in a rollout of the collectors.

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
