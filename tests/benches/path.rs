//! The whole way of an address, from the answer of CoreDNS to the first packet, as a table in Markdown
//! ([`tests::path_latency`]).
//!
//! With `UPDATE_GENERATED=1` it replaces the table of `docs/latency.md`. `quick` makes it short.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a bench fails loudly and prints its figures"
)]

use std::{env, fs, path::Path, time::Duration};

use tests::{
    kube::is_built,
    path_latency::{Change, Plan, markdown, measure},
};

/// The beginning of the table, which ends the page.
const TABLE: &str = "| change |";

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let is_quick = env::args().any(|arg| arg == "quick");
    if !is_built() {
        println!("path: skipped, as there is no kube-apiserver: run scripts/setup");
        return;
    }
    let plan = Plan {
        changes: vec![
            Change::Wildcard(1),
            Change::Wildcard(60),
            Change::Wildcard(200),
            Change::Rule,
        ],
        // All wildcards of the plan together stay within a namespace's cap of 100.
        samples: if is_quick { 10 } else { 80 },
        rest: Duration::from_secs(10),
        pause: Duration::from_millis(750),
    };
    let rows = match measure(&plan).await {
        Ok(rows) => rows,
        Err(reason) => {
            println!("path: skipped: {reason}");
            return;
        }
    };
    let table = markdown(&rows);
    println!("{table}");
    if env::var_os("UPDATE_GENERATED").is_some() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/latency.md");
        let text = fs::read_to_string(&page).expect("the page");
        let (head, _) = text.split_once(TABLE).expect("the place of the table");
        let text = format!("{head}{table}");
        fs::write(page, text).expect("the page can be written");
    }
}
