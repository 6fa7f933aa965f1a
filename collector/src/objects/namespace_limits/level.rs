//! The level to which the namespaces with the most are cut.

use std::cmp::Reverse;

/// The most that a namespace may keep so that all namespaces together lose `excess`.
pub(super) fn level(mut used: Vec<usize>, excess: usize) -> usize {
    used.sort_unstable_by_key(|it| Reverse(*it));
    let next = used.iter().skip(1).copied().chain([0]);
    let mut all = 0;
    let levels = (1..).zip(used.iter().zip(next)).map(|(count, (it, next))| {
        all += it;
        let is_enough = all - count * next >= excess;
        is_enough.then(|| all.saturating_sub(excess) / count)
    });
    levels.flatten().next().unwrap_or(0)
}
