//! Generated parts of `docs/`. They are written with `UPDATE_GENERATED=1` alone.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// A table in Markdown.
///
/// # Panics
/// If a line has another number of cells than the heading.
pub fn table(heading: &str, lines: &[Vec<String>]) -> String {
    let columns = heading.split('|').count();
    let mut text = format!("|{heading}|\n{}|\n", "|---".repeat(columns));
    for line in lines {
        assert_eq!(line.len(), columns, "{line:?}");
        text += &format!("|{}|\n", line.join("|"));
    }
    text
}

/// Replaces the table of a page whose heading has the same first cell.
///
/// # Panics
/// If the page has no such table.
pub fn update_table(page: &str, table: &str) {
    if env::var_os("UPDATE_GENERATED").is_none() {
        return;
    }
    let path = docs(page);
    let text = fs::read_to_string(&path).expect("the page");
    let cell = table.split('|').nth(1).expect("a heading");
    let at = text
        .find(&format!("\n|{cell}|"))
        .expect("the place of the table")
        + 1;
    let (before, old) = text.split_at(at);
    let rest = old
        .split_inclusive('\n')
        .skip_while(|line| line.starts_with('|'));
    fs::write(
        path,
        [before, table].into_iter().chain(rest).collect::<String>(),
    )
    .expect("the page can be written");
}

/// Replaces an image of the pages.
///
/// # Panics
/// If it cannot be written.
pub fn update_image(name: &str, svg: &str) {
    if env::var_os("UPDATE_GENERATED").is_some() {
        fs::write(docs("images").join(name), svg).expect("the image can be written");
    }
}

fn docs(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../docs")
        .join(name)
}
