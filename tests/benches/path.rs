//! The whole way of an address, from the answer of CoreDNS to the first packet, as a table in Markdown
//! ([`tests::path_latency`]).
//!
//! With `UPDATE_GENERATED=1` it replaces the table of `docs/latency.md`. `quick` makes it short.

use std::{env, time::Duration};

use tests::{
    kube::is_built,
    page::update_table,
    path_latency::{Change, Plan, markdown, measure},
};

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
    update_table("latency.md", &table);
}
