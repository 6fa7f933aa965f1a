//! This project beside others on the same work, in one run: reading dnstap ([`readers`]), and the whole job, from an answer to a
//! row ([`job`]). The bench `northbound` of the ovn-writer compares how address sets are written.
//!
//! Compare the rows of a table: each figure depends on the machine. With `UPDATE_GENERATED=1` the tables and images of
//! `docs/alternatives.md` are replaced. The words `readers` and `job` choose a part; `quick` makes it short.

mod analysis;
mod api_link;
mod dns_load;
mod job;
mod observer;
mod periodic_resolver;
mod readers;

use std::{env, process::ExitCode};

use tests::{
    bar_chart::{Bar, THEMES, svg},
    page::update_image,
};

fn main() -> ExitCode {
    let words: Vec<String> = env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    if let Some((first, rest)) = words.split_first()
        && first == periodic_resolver::WORD
    {
        periodic_resolver::run(rest);
    }
    let is_quick = words.iter().any(|word| word == "quick");
    let chosen = |part: &str| {
        let parts = words.iter().filter(|word| *word != "quick");
        parts.clone().count() == 0 || parts.clone().any(|word| word == part)
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let mut holds = true;
    if chosen("readers") {
        holds &= runtime.block_on(readers::run(is_quick));
    }
    if chosen("job") {
        runtime.block_on(job::run(is_quick));
    }
    ExitCode::from(u8::from(!holds && !is_quick))
}

/// Replaces the images of this name, for light and dark pages.
fn update_chart(name: &str, title: &str, bars: &[Bar]) {
    for (ending, theme) in THEMES {
        update_image(&format!("{name}-{ending}.svg"), &svg(title, bars, theme));
    }
}
