//! How fast the writer is on a real `ovsdb-server`, next to the least that any client of it can do.
//!
//! The measure is a raw socket that sends bytes which were prepared before and waits for the reply. Both take turns on the same
//! server, so compare the ratios of one run, not the figures. The writer is the whole of it, from an event of the store to the
//! acknowledged transaction, on a thread and with the metrics that the program has. The processors are kept [awake](Awake).
//!
//! The raw socket monitors its own rows, as the writer does. Who keeps sets right must know them, so the server compares each of
//! his changes with his monitor and tells him of it before it answers: that is the server's work, whoever the client is, and the
//! limits of latency are held against a client that has it done, too. What a blind one takes, which monitors nothing, is printed
//! beside it.
//!
//! The words after `--` choose parts; `quick` makes all of them short. With a whole run the exit status is 1 if a limit does not
//! hold.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench fails loudly and prints its figures"
)]

mod burst;
mod counting;
mod figures;
mod first_sync;
mod latency;
mod memory;
mod objects;
mod raw;
mod signals;
mod unchanged;
mod writer;

use std::process::ExitCode;

use tests::awake::Awake;

use self::{figures::Verdicts, signals::Signals};

/// What the parts of the bench have in common.
struct Bench {
    signals: Signals,
    verdicts: Verdicts,
    /// Fewer rounds, to see that it works: figures vary too much to be judged then.
    quick: bool,
}

type Part = fn(&mut Bench);

impl Bench {
    /// How many rounds there are of so many.
    fn rounds(&self, whole: usize) -> usize {
        if self.quick {
            whole.div_ceil(10)
        } else {
            whole
        }
    }
}

fn main() -> ExitCode {
    let parts: [(&str, Part); 5] = [
        ("memory", memory::run),
        ("unchanged", unchanged::run),
        ("latency", latency::run),
        ("burst", burst::run),
        ("first-sync", first_sync::run),
    ];
    // Cargo passes flags of its own; words choose parts.
    let (quick, chosen): (Vec<_>, Vec<_>) = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with('-'))
        .partition(|word| word == "quick");
    if let Some(word) = chosen
        .iter()
        .find(|word| parts.iter().all(|(name, _)| name != word))
    {
        println!(
            "there is no part {word}: memory, unchanged, latency, burst, first-sync; or quick"
        );
        return ExitCode::from(2);
    }
    let _awake = Awake::keep();
    let mut bench = Bench {
        signals: signals::install(),
        verdicts: Verdicts::default(),
        quick: !quick.is_empty(),
    };
    for (name, part) in parts {
        if chosen.is_empty() || chosen.iter().any(|word| word == name) {
            part(&mut bench);
        }
    }
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
