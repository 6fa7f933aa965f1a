//! Measured figures, with their limits.

use std::{thread::sleep, time::Duration};

use tests::{page, times::Times};

use crate::latency::PAUSE;

/// The exceeded limits.
#[derive(Default)]
pub(crate) struct Verdicts {
    missed: Vec<String>,
}

impl Verdicts {
    /// Prints a figure beside the most that it may be, and records a violation.
    pub(crate) fn judge(&mut self, what: &str, figure: f64, most: f64) {
        let kept = figure <= most;
        let verdict = if kept { "kept" } else { "MISSED" };
        println!("  {what}: {figure:.2} (at most {most}: {verdict})");
        if !kept {
            self.missed.push(format!("{what}: {figure:.2}"));
        }
    }

    pub(crate) fn missed(&self) -> &[String] {
        &self.missed
    }
}

/// The changes by one client.
#[derive(Default)]
pub(crate) struct Changes {
    pub(crate) times: Times,
    /// Of all changes together.
    pub(crate) cpu: Duration,
    pub(crate) count: u32,
}

impl Changes {
    /// Adds a time, and the CPU time of these changes. `cpu` tells the client's CPU time so far.
    pub(crate) fn measure(
        &mut self,
        changes: u32,
        cpu: impl Fn() -> Duration,
        time: impl FnOnce() -> Duration,
    ) {
        let before = cpu();
        self.times.push(time());
        sleep(PAUSE);
        self.cpu += cpu().saturating_sub(before);
        self.count += changes;
    }

    fn cpu_cell(&self) -> String {
        if self.count == 0 {
            return "–".to_owned();
        }
        let each = self.cpu.as_secs_f64() * 1e3 / f64::from(self.count);
        format!("{each:.2}")
    }

    fn times_cell(&mut self) -> String {
        if self.count == 0 {
            return "–".to_owned();
        }
        self.times.cell(Duration::from_millis(1))
    }
}

/// The clients of [`Comparison`], in its order.
const CLIENTS: [&str; 4] = [
    "the ovn-writer",
    "libovsdb 0.8.1 (Go)",
    "`ovn-nbctl`, daemon mode",
    "`ovs` 4.0.0 (Python)",
];

/// The number of columns of a whole comparison, without the clients' names.
const COLUMNS: usize = 7;

/// The figures of the clients, by columns.
#[derive(Default)]
pub(crate) struct Comparison(Vec<(String, [String; CLIENTS.len()])>);

impl Comparison {
    pub(crate) fn add_times(&mut self, case: &str, changes: [&mut Changes; CLIENTS.len()]) {
        let cells = changes.map(|changes| changes.times_cell());
        self.0.push((case.to_owned(), cells));
    }

    pub(crate) fn add_cpu(&mut self, case: &str, changes: [&mut Changes; CLIENTS.len()]) {
        let cells = changes.map(|changes| changes.cpu_cell());
        self.0.push((format!("CPU, {case}"), cells));
    }

    /// In bytes.
    pub(crate) fn add_memory(&mut self, memory: [Option<u64>; CLIENTS.len()]) {
        let cell = |bytes: u64| (bytes / 1_000_000).to_string();
        let cells = memory.map(|bytes| bytes.map_or_else(|| "–".to_owned(), cell));
        self.0.push(("memory, MB".to_owned(), cells));
    }

    /// Prints the table. A whole one replaces that of `docs/alternatives.md`.
    pub(crate) fn print(&self) {
        let headings = self.0.iter().map(|(heading, _)| heading.as_str());
        let headings: Vec<&str> = std::iter::once("client").chain(headings).collect();
        let line = |(at, name): (usize, &&str)| {
            let cells = self.0.iter().map(|(_, cells)| cells[at].clone());
            std::iter::once((*name).to_owned()).chain(cells).collect()
        };
        let lines: Vec<Vec<String>> = CLIENTS.iter().enumerate().map(line).collect();
        let table = page::table(&headings.join("|"), &lines);
        println!("{table}");
        if self.0.len() == COLUMNS {
            page::update_table("alternatives.md", &table);
        }
    }
}
