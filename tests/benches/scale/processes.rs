//! The resources that the started programs have used so far (proc(5)).

use std::{collections::BTreeMap, fs, time::Duration};

/// The use of all programs of one name.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    /// CPU time.
    pub(crate) cpu: Duration,
    /// Resident, in bytes.
    pub(crate) memory: u64,
}

/// By program.
#[derive(Debug)]
pub(crate) struct Processes(BTreeMap<String, Used>);

impl Processes {
    /// The use of this program and its children.
    pub(crate) fn now() -> Self {
        let own = std::process::id();
        let mut all = BTreeMap::<String, Used>::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let folder = entry.path();
            let Ok(stat) = fs::read_to_string(folder.join("stat")) else {
                continue;
            };
            // The name may contain any character, also brackets.
            let Some((head, tail)) = stat.rsplit_once(") ") else {
                continue;
            };
            let (pid, name) = head.split_once(" (").unwrap();
            let fields: Vec<u64> = tail.split(' ').map(|it| it.parse().unwrap_or(0)).collect();
            let (parent, ticks, pages) = (fields[1], fields[11] + fields[12], fields[21]);
            let is_own = pid == own.to_string();
            if parent != u64::from(own) && !is_own {
                continue;
            }
            let name = if is_own { "this bench" } else { name };
            let used = all.entry(name.to_owned()).or_default();
            used.cpu += Duration::from_millis(ticks * 10);
            used.memory += pages * 4096;
        }
        Self(all)
    }

    /// The use since then; memory is that of the end.
    pub(crate) fn until(&self, end: &Self) -> BTreeMap<String, Used> {
        let taken = |(name, end): (&String, &Used)| {
            let start = self.0.get(name).copied().unwrap_or_default();
            let used = Used {
                cpu: end.cpu.saturating_sub(start.cpu),
                memory: end.memory,
            };
            (name.clone(), used)
        };
        end.0.iter().map(taken).collect()
    }
}
