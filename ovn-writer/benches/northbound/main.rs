//! The speed of the writer on a real `ovsdb-server`, compared with other clients: libovsdb, the client of ovn-kubernetes,
//! `ovn-nbctl` in daemon mode, and the IDL for Python after `scripts/setup --peers`.
//!
//! All take turns on the same server, so compare the ratios of one run, not the figures. The writer's time goes from
//! the object's event on the watch to the acknowledged transaction. Its thread and metrics are those of the program.
//! libovsdb's time goes from the same event, in its memory, to the result of the transaction. It monitors the same columns,
//! compares the set with its cache as the writer does, and makes the same change. The bench keeps the processors
//! [awake](Awake).
//!
//! The words after `--` choose parts; `quick` makes all of them short. With a whole run the exit status is 1 if a limit
//! is exceeded.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench fails loudly and prints its figures"
)]

mod figures;
mod latency;
mod memory;
mod nbctl;
mod objects;
mod peer;
mod signals;
mod surroundings;
mod writer;

use std::process::ExitCode;

use tests::cpu_wakeup::Awake;

use self::{
    figures::{Comparison, Verdicts},
    signals::Signals,
};

/// The common state of the parts.
struct Bench {
    signals: Signals,
    verdicts: Verdicts,
    comparison: Comparison,
    /// Fewer rounds, to check that the bench works: such figures vary too much for the limits.
    quick: bool,
}

type Part = fn(&mut Bench);

impl Bench {
    fn rounds(&self, whole: usize) -> usize {
        if self.quick {
            whole.div_ceil(10)
        } else {
            whole
        }
    }
}

fn main() -> ExitCode {
    let parts: [(&str, Part); 3] = [
        ("memory", memory::run),
        ("latency", latency::run),
        ("surroundings", surroundings::run),
    ];
    // Flags come from Cargo; words choose parts.
    let (quick, chosen): (Vec<_>, Vec<_>) = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with('-'))
        .partition(|word| word == "quick");
    if let Some(word) = chosen
        .iter()
        .find(|word| parts.iter().all(|(name, _)| name != word))
    {
        println!("there is no part {word}: memory, latency, surroundings; or quick");
        return ExitCode::from(2);
    }
    let _awake = Awake::keep();
    let mut bench = Bench {
        signals: signals::install(),
        verdicts: Verdicts::default(),
        comparison: Comparison::default(),
        quick: !quick.is_empty(),
    };
    for (name, part) in parts {
        if chosen.is_empty() || chosen.iter().any(|word| word == name) {
            part(&mut bench);
        }
    }
    bench.comparison.print();
    let missed = bench.verdicts.missed();
    if missed.is_empty() {
        println!("all limits hold");
        return ExitCode::SUCCESS;
    }
    println!("limits that do not hold:");
    missed.iter().for_each(|missed| println!("  {missed}"));
    if bench.quick {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
