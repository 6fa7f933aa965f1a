//! Counts long sentences, and sentences whose subject is a pronoun such as `who`, in pages, comments and messages.
//!
//! `prose [--limit PERCENT] [--list] [PATH...]` reads the files below each path, or below the working directory. It prints
//! a table by folder: sentences, those with more than 25 words, and those with such a subject. `--list` prints these
//! sentences first. `--limit` exits with 1 if they exceed that share in pages, in comments or in messages. Fragments of
//! fewer than three words do not count.
#![allow(clippy::print_stdout, reason = "it is what the program is for")]

use std::{
    collections::BTreeMap,
    env, fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, bail};

const MOST_WORDS: usize = 25;
const FEWEST_WORDS: usize = 3;
const SUBJECTS: [&str; 5] = ["who", "whoever", "somebody", "nobody", "what"];
const ABBREVIATIONS: [&str; 5] = ["e.g.", "i.e.", "etc.", "vs.", "cf."];

#[derive(Clone, Copy, Eq, Ord, PartialEq, PartialOrd)]
enum Kind {
    Page,
    Comment,
    Message,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Page => "pages",
            Self::Comment => "comments",
            Self::Message => "messages",
        }
    }
}

#[derive(Default)]
struct Args {
    limit: Option<f64>,
    list: bool,
    paths: Vec<PathBuf>,
}

impl Args {
    fn parse(args: impl Iterator<Item = String>) -> anyhow::Result<Self> {
        let mut parsed = Self::default();
        let mut args = args.peekable();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--list" => parsed.list = true,
                "--limit" => {
                    let percent = args.next().context("--limit needs a percentage")?;
                    parsed.limit = Some(percent.parse().context("--limit is a percentage")?);
                }
                flag if flag.starts_with('-') => bail!("unknown flag {flag}"),
                path => parsed.paths.push(PathBuf::from(path)),
            }
        }
        if parsed.paths.is_empty() {
            parsed.paths.push(PathBuf::from("."));
        }
        Ok(parsed)
    }
}

#[derive(Clone, Copy, Default)]
struct Counts {
    sentences: u32,
    long: u32,
    pronoun: u32,
    either: u32,
}

impl Counts {
    fn add(&mut self, sentence: &Sentence) {
        self.sentences += 1;
        self.long += u32::from(sentence.is_long());
        self.pronoun += u32::from(sentence.has_pronoun_subject());
        self.either += u32::from(sentence.is_long() || sentence.has_pronoun_subject());
    }

    fn merge(&mut self, other: Self) {
        self.sentences += other.sentences;
        self.long += other.long;
        self.pronoun += other.pronoun;
        self.either += other.either;
    }

    fn percent(self, part: u32) -> f64 {
        100.0 * f64::from(part) / f64::from(self.sentences.max(1))
    }

    fn print(self, folder: &str, kind: Kind) {
        println!(
            "{folder:<20} {:<9} {:>9} {:>6} {:>5.1} % {:>8} {:>5.1} %",
            kind.name(),
            self.sentences,
            self.long,
            self.percent(self.long),
            self.pronoun,
            self.percent(self.pronoun)
        );
    }
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse(env::args().skip(1))?;
    let mut counts: BTreeMap<(Kind, String), Counts> = BTreeMap::new();
    for root in &args.paths {
        for file in files(root).with_context(|| root.display().to_string())? {
            let text = fs::read_to_string(&file)?;
            for (kind, sentence) in sentences_of(&file, &text) {
                if args.list && (sentence.is_long() || sentence.has_pronoun_subject()) {
                    let words = sentence.words.len();
                    println!("{}: {words}: {}", file.display(), sentence.text());
                }
                let folder = counts.entry((kind, folder_of(root, &file))).or_default();
                folder.add(&sentence);
            }
        }
    }
    Ok(report(&counts, args.limit))
}

fn report(counts: &BTreeMap<(Kind, String), Counts>, limit: Option<f64>) -> ExitCode {
    println!(
        "{:<20} {:<9} {:>9} {:>14} {:>16}",
        "folder", "in", "sentences", "> 25 words", "who, what, …"
    );
    let mut totals: BTreeMap<Kind, Counts> = BTreeMap::new();
    for ((kind, folder), counts) in counts {
        counts.print(folder, *kind);
        totals.entry(*kind).or_default().merge(*counts);
    }
    for (kind, counts) in &totals {
        counts.print("all", *kind);
    }
    let mut status = ExitCode::SUCCESS;
    for (kind, counts) in &totals {
        let share = counts.percent(counts.either);
        if let Some(limit) = limit.filter(|limit| share > *limit) {
            println!(
                "{share:.1} % of the sentences in {}, more than {limit} %",
                kind.name()
            );
            status = ExitCode::FAILURE;
        }
    }
    status
}

/// All pages and sources, without hidden folders and build output.
fn files(path: &Path) -> io::Result<Vec<PathBuf>> {
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    let mut entries = fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let path = entry.path();
        if name.starts_with('.') || name == "target" {
            continue;
        }
        if path.is_dir() {
            found.extend(files(&path)?);
        } else if path.extension().is_some_and(|it| it == "md" || it == "rs") {
            found.push(path);
        }
    }
    Ok(found)
}

/// The folder in the table: `docs/decisions`, or the crate of a source.
fn folder_of(root: &Path, file: &Path) -> String {
    let folder = file.parent().unwrap_or(root);
    let folder = folder.strip_prefix(".").unwrap_or(folder);
    let depth = if file.extension().is_some_and(|it| it == "rs") {
        1
    } else {
        2
    };
    let parts: Vec<_> = folder
        .iter()
        .take(depth)
        .map(|it| it.to_string_lossy())
        .collect();
    if parts.is_empty() {
        ".".to_owned()
    } else {
        parts.join("/")
    }
}

fn sentences_of(file: &Path, text: &str) -> Vec<(Kind, Sentence)> {
    let of = |kind, blocks: Vec<String>| {
        let sentences = blocks.into_iter().flat_map(|it| sentences(&it));
        sentences.map(move |it| (kind, it)).collect::<Vec<_>>()
    };
    if file.extension().is_some_and(|it| it == "md") {
        return of(Kind::Page, blocks(text.lines()));
    }
    let first = text.lines().next().unwrap_or_default();
    if first.to_lowercase().contains("generated") {
        return Vec::new();
    }
    let source = Source::read(text);
    let comments = source.comments.iter().flat_map(|it| blocks(it.lines()));
    let mut found = of(Kind::Comment, comments.collect());
    let is_test = |part: &std::ffi::OsStr| {
        let part = part.to_string_lossy();
        part.starts_with("tests") || part == "benches"
    };
    if !file.iter().any(is_test) {
        found.extend(of(Kind::Message, source.strings));
    }
    found
}

struct Sentence {
    words: Vec<String>,
}

impl Sentence {
    fn is_long(&self) -> bool {
        self.words.len() > MOST_WORDS
    }

    fn has_pronoun_subject(&self) -> bool {
        let is_question = self.words.last().is_some_and(|it| it.ends_with('?'));
        let first = self.words.first().map(|it| it.to_lowercase());
        // A placeholder such as `{what}` stands for another word.
        let first = first
            .as_deref()
            .map(|it| it.trim_matches(|c: char| !c.is_alphanumeric() && !"{}".contains(c)));
        !is_question && first.is_some_and(|it| SUBJECTS.contains(&it))
    }

    fn text(&self) -> String {
        self.words.join(" ")
    }
}

/// The sentences of a block. A word with a final point, question mark or exclamation mark ends one.
fn sentences(block: &str) -> Vec<Sentence> {
    let mut found = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let block = without_code_and_links(block);
    for word in block.split_whitespace() {
        let closed = word.trim_end_matches([')', '"', '*', '_', '\'']);
        let ends = closed.ends_with(['.', '?', '!']) && !closed.ends_with("..");
        if word.chars().any(char::is_alphanumeric) {
            words.push(word.to_owned());
        }
        if ends && !ABBREVIATIONS.contains(&closed) {
            found.push(std::mem::take(&mut words));
        }
    }
    found.push(words);
    let sentences = found.into_iter().filter(|it| it.len() >= FEWEST_WORDS);
    sentences.map(|words| Sentence { words }).collect()
}

/// Code between backticks counts as one word, and a link as its text.
fn without_code_and_links(block: &str) -> String {
    let mut text = String::new();
    for (i, part) in block.split('`').enumerate() {
        text.push_str(if i % 2 == 1 { "code" } else { part });
    }
    let mut plain = String::new();
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once("](") {
        plain.push_str(before);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    plain.push_str(rest);
    plain.replace(['[', ']'], "")
}

/// The paragraphs, list items and table cells of a page, without headings and code.
fn blocks<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut in_code = false;
    for line in lines {
        let line = line.trim();
        let fence = line.starts_with("```");
        in_code ^= fence;
        if fence || in_code {
            found.push(String::new());
            continue;
        }
        let is_cells = line.starts_with('|') && line.ends_with('|');
        if line.is_empty() || line.starts_with('#') || line.starts_with("<!--") {
            found.push(String::new());
        } else if is_cells {
            found.extend(line.split('|').map(str::to_owned));
            found.push(String::new());
        } else if let Some(item) = list_item(line) {
            found.push(item.to_owned());
        } else if let Some(block) = found.last_mut() {
            block.push(' ');
            block.push_str(line);
        }
    }
    found
}

fn list_item(line: &str) -> Option<&str> {
    let bullet = ["- ", "* ", "> "]
        .iter()
        .find_map(|it| line.strip_prefix(it));
    let number = || {
        line.split_once(". ")
            .filter(|(it, _)| it.parse::<u8>().is_ok())
    };
    bullet.or_else(|| number().map(|(_, item)| item))
}

/// The comments of a source, and its strings before its tests.
#[derive(Default)]
struct Source {
    comments: Vec<String>,
    strings: Vec<String>,
}

impl Source {
    fn read(text: &str) -> Self {
        let mut source = Self::default();
        let mut rest = text;
        let mut is_first_in_line = true;
        let mut follows_comment = false;
        let mut in_tests = false;
        while let Some(next) = rest.chars().next() {
            if let Some(comment) = rest.strip_prefix("//") {
                let line = comment.lines().next().unwrap_or_default();
                let line = line.trim_start_matches(['/', '!']);
                match source.comments.last_mut().filter(|_| follows_comment) {
                    Some(last) => {
                        last.push('\n');
                        last.push_str(line);
                    }
                    None => source.comments.push(line.to_owned()),
                }
                follows_comment = is_first_in_line;
                rest = comment.split_once('\n').map_or("", |(_, rest)| rest);
                is_first_in_line = true;
                continue;
            }
            if let Some((string, after)) = string_literal(rest) {
                if !in_tests {
                    source.strings.push(string);
                }
                (rest, is_first_in_line, follows_comment) = (after, false, false);
                continue;
            }
            in_tests |= rest.starts_with("#[cfg(test)]");
            match next {
                '\n' => {
                    follows_comment &= !is_first_in_line;
                    is_first_in_line = true;
                }
                it if it.is_whitespace() => {}
                _ => (is_first_in_line, follows_comment) = (false, false),
            }
            rest = rest.get(token_len(rest)..).unwrap_or_default();
        }
        source
    }
}

/// The length in bytes of a word, a quoted character, or another character.
fn token_len(text: &str) -> usize {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let word = text.find(|c: char| !is_word(c)).unwrap_or(text.len());
    if word > 0 {
        return word;
    }
    let mut chars = text.char_indices();
    let first = chars.next().map_or(0, |(_, c)| c.len_utf8());
    if !text.starts_with('\'') {
        return first;
    }
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some((at, _))) => {
            let end = text.get(at + 1..).and_then(|it| it.find('\''));
            end.map_or(first, |end| at + end + 2)
        }
        (Some(_), Some((at, '\''))) => at + 1,
        _ => first,
    }
}

/// The string at the start of the text, and the rest.
fn string_literal(text: &str) -> Option<(String, &str)> {
    let raw = text.strip_prefix('b').unwrap_or(text);
    if let Some(raw) = raw.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        let inner = raw.trim_start_matches('#').strip_prefix('"')?;
        let end = format!("\"{}", "#".repeat(hashes));
        let (string, after) = inner.split_once(&end)?;
        return Some((string.to_owned(), after));
    }
    let inner = raw.strip_prefix('"')?;
    let mut string = String::new();
    let mut chars = inner.char_indices();
    while let Some((_, c)) = chars.next() {
        match c {
            '"' => return Some((string, chars.as_str())),
            '\\' => {
                let escaped = chars.next();
                string.push(if matches!(escaped, Some((_, '"'))) {
                    '"'
                } else {
                    ' '
                });
            }
            c => string.push(c),
        }
    }
    None
}
