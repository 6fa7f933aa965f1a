//! The server blocks and directives of a Corefile, with its imports, as Caddy's parser defines them
//! (github.com/coredns/caddy, caddyfile/parse.go), with their positions.

mod imports;

use std::{
    collections::BTreeMap,
    mem::take,
    ops::Range,
    path::{Path, PathBuf},
};

pub(crate) use self::imports::{Imports, custom_files};
use super::{
    KEY,
    lex::{Token, tokens},
};

/// The most imports of a Corefile: a file may import itself.
const MAX_IMPORTS: usize = 10_000;

/// Why a text is no Corefile, and where.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub(crate) struct SyntaxError {
    /// The line, from 1.
    pub(crate) line: usize,
    pub(crate) problem: String,
}

/// An import whose text is unknown: its line and its pattern.
pub(crate) type Unknown = (usize, String);

/// The content of a file, and of the files that it imports.
#[derive(Clone, Debug, Default)]
pub(crate) struct Corefile {
    pub(crate) blocks: Vec<Block>,
    /// Imports in place of server blocks.
    pub(crate) unknown: Vec<Unknown>,
}

/// A server block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Block {
    /// Its zones and ports.
    pub(crate) keys: Vec<String>,
    /// The line of the first key.
    pub(crate) line: usize,
    /// The position after the opening brace, or after the keys if there are no braces. `None` in an imported file.
    pub(crate) body: Option<usize>,
    /// The pattern of the import that it comes from.
    pub(crate) import: Option<String>,
    /// Its directives, including imported ones.
    pub(crate) directives: Vec<Directive>,
    pub(crate) unknown: Vec<Unknown>,
}

/// A plugin's name with its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Directive {
    pub(crate) name: String,
    /// The arguments before its own block.
    pub(crate) args: Vec<Token>,
    /// Each word of its own block.
    pub(crate) nested: Vec<Token>,
    pub(crate) line: usize,
    /// From its name to its last word or brace. `None` in an imported file.
    pub(crate) span: Option<Range<usize>>,
}

impl Directive {
    /// The n-th argument, from 0.
    pub(crate) fn arg(&self, n: usize) -> Option<&str> {
        self.args.get(n).map(|token| token.text.as_str())
    }
}

pub(crate) fn parse(text: &str, imports: &Imports) -> Result<Corefile, SyntaxError> {
    let mut parser = Parser {
        imports,
        rest: tokens(text, 0),
        last: None,
        files: vec![File {
            path: imports.folder().join(KEY),
            pattern: None,
        }],
        snippets: BTreeMap::new(),
        unknown: Vec::new(),
        count: 0,
    };
    parser.rest.reverse();
    let mut corefile = Corefile::default();
    while parser.rest.last().is_some() {
        let block = parser.block(&mut corefile.unknown);
        let block = block.map_err(|error| parser.located(error))?;
        corefile.blocks.extend(block);
    }
    Ok(corefile)
}

fn error<T>(line: usize, problem: impl Into<String>) -> Result<T, SyntaxError> {
    let problem = problem.into();
    Err(SyntaxError { line, problem })
}

struct File {
    /// Its imports are relative to its folder.
    path: PathBuf,
    /// By which it is imported.
    pattern: Option<String>,
}

struct Parser<'a> {
    imports: &'a Imports,
    /// The tokens to come, the next one last.
    rest: Vec<Token>,
    /// The token before these. Imports do not count.
    last: Option<Token>,
    files: Vec<File>,
    snippets: BTreeMap<String, Vec<Token>>,
    /// The imports since the last block.
    unknown: Vec<Unknown>,
    /// The number of imports.
    count: usize,
}

impl Parser<'_> {
    /// Whether the next token begins a line.
    fn begins_line(&self) -> bool {
        match (&self.last, self.rest.last()) {
            (Some(last), Some(next)) => last.ends_line(next),
            (_, next) => next.is_some(),
        }
    }

    fn next(&mut self) -> Option<&Token> {
        self.last = Some(self.rest.pop()?);
        self.last.as_ref()
    }

    /// Names the imported file, if the problem is in one.
    fn located(&self, mut error: SyntaxError) -> SyntaxError {
        let file = self.last.as_ref().filter(|it| it.file > 0);
        if let Some(file) = file.and_then(|it| self.files.get(it.file)) {
            error.problem += &format!(" (in {})", file.path.display());
        }
        error
    }

    fn last_line(&self) -> usize {
        self.last.as_ref().map_or(1, |it| it.shown_line)
    }

    /// A server block; `None` for a snippet, and for a block without keys, which CoreDNS ignores.
    fn block(&mut self, unknown: &mut Vec<Unknown>) -> Result<Option<Block>, SyntaxError> {
        let mut block = self.keys()?;
        unknown.append(&mut self.unknown);
        if let [key] = block.keys.as_slice()
            && let Some(name) = key.strip_prefix('(').and_then(|it| it.strip_suffix(')'))
            && self.rest.last().is_some()
        {
            self.snippet(block.line, name)?;
            return Ok(None);
        }
        if let Some((key, fault)) = block.keys.iter().find_map(|it| Some((it, key_fault(it)?))) {
            return error(block.line, format!("`{key}` is no zone: {fault}"));
        }
        let is_braced = self.rest.last().is_some_and(|it| it.text == "{");
        if is_braced {
            self.next();
        }
        let last = self.last.as_ref().filter(|it| it.file == 0);
        block.body = last.map(|it| it.span.end);
        let line = self.last_line();
        while let Some(token) = self.rest.last() {
            match token.text.as_str() {
                // It ends a block without an opening brace, too.
                "}" => {
                    self.next();
                    break;
                }
                "import" => self.import()?,
                _ => {
                    let directive = self.directive()?;
                    block.directives.push(directive);
                }
            }
        }
        // At the end of the file, the brace of the last directive is enough for CoreDNS.
        if is_braced && self.last.as_ref().is_none_or(|it| it.text != "}") {
            let keys = block.keys.join(" ");
            let problem = format!("the `{{` of this line has no `}}`, in {keys}");
            return error(line, problem);
        }
        block.unknown = take(&mut self.unknown);
        Ok((!block.keys.is_empty()).then_some(block))
    }

    /// Keys on one line, or on several if each line but the last ends with a comma.
    fn keys(&mut self) -> Result<Block, SyntaxError> {
        let mut block = Block::default();
        let mut another = false;
        while let Some(token) = self.rest.last() {
            if token.text == "import" && self.begins_line() {
                self.import()?;
                continue;
            }
            if token.text == "{" {
                break;
            }
            if block.keys.is_empty() {
                block.line = token.shown_line;
                let file = self.files.get(token.file);
                block.import = file.and_then(|it| it.pattern.clone());
            }
            if !token.text.is_empty() {
                let key = token.text.strip_suffix(',');
                another = key.is_some();
                block.keys.push(key.unwrap_or(&token.text).to_owned());
            }
            self.next();
            if !another && self.begins_line() {
                break;
            }
        }
        if another {
            return error(self.last_line(), "a key is missing after the comma");
        }
        Ok(block)
    }

    /// Keeps the words of a snippet for its imports.
    fn snippet(&mut self, line: usize, name: &str) -> Result<(), SyntaxError> {
        if self.snippets.contains_key(name) {
            return error(line, format!("a second snippet ({name})"));
        }
        let (mut words, mut depth) = (Vec::new(), 0_usize);
        while let Some(token) = self.next() {
            match token.text.as_str() {
                "{" => depth += 1,
                "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
            words.push(token.clone());
            if depth == 0 {
                break;
            }
        }
        if depth > 0 || words.len() < 2 {
            return error(line, format!("the snippet ({name}) has no `{{` or no `}}`"));
        }
        words.pop();
        words.remove(0);
        self.snippets.insert(name.to_owned(), words);
        Ok(())
    }

    /// A name with the rest of its line, and its block if one opens there.
    fn directive(&mut self) -> Result<Directive, SyntaxError> {
        let Some(name) = self.next().cloned() else {
            return error(0, "a directive is missing");
        };
        let line = name.shown_line;
        let is_variable = name.text.starts_with("{$") || name.text.starts_with("{%");
        if name.text.starts_with(['{', '}']) && !is_variable {
            return error(line, format!("a `{}` instead of a directive", name.text));
        }
        let (mut args, mut nested) = (Vec::new(), Vec::new());
        let (mut depth, mut span) = (0_usize, name.span);
        while let Some(token) = self.rest.last() {
            let is_new = self.begins_line();
            match token.text.as_str() {
                "{" => depth += 1,
                _ if is_new && depth == 0 => break,
                "}" if depth > 0 => depth -= 1,
                "}" => {
                    let problem = format!("a `}}` behind `{}` on its line", name.text);
                    return error(token.shown_line, problem);
                }
                "import" if is_new => {
                    self.import()?;
                    continue;
                }
                _ if depth == 0 => args.push(token.clone()),
                _ => nested.push(token.clone()),
            }
            if token.import == name.import {
                span.end = token.span.end;
            }
            self.next();
        }
        if depth > 0 {
            let problem = format!("the block of `{}` has no `}}`", name.text);
            return error(line, problem);
        }
        Ok(Directive {
            name: name.text,
            args,
            nested,
            line,
            span: (name.file == 0).then_some(span),
        })
    }

    /// Replaces an import by the text of its snippet or files.
    fn import(&mut self) -> Result<(), SyntaxError> {
        let Some(import) = self.rest.pop() else {
            return Ok(());
        };
        let line = import.shown_line;
        let argument = self.rest.pop_if(|it| import.shares_line(it));
        let Some(argument) = argument.filter(|it| !it.text.is_empty()) else {
            return error(line, "`import` has no argument");
        };
        if let Some(more) = self.rest.last().filter(|it| argument.shares_line(it)) {
            let problem = format!("`{}` behind the argument of `import`", more.text);
            return error(line, problem);
        }
        self.count += 1;
        if self.count > MAX_IMPORTS {
            return error(line, format!("more than {MAX_IMPORTS} imports"));
        }
        let pattern = argument.text;
        let mut words = Vec::new();
        if let Some(snippet) = self.snippets.get(&pattern) {
            words.clone_from(snippet);
        } else {
            let several = |it: char| pattern.matches(it).count() > 1;
            if several('*') || several('?') || (pattern.contains('[') && pattern.contains(']')) {
                return error(
                    line,
                    format!("`import {pattern}`: CoreDNS takes one wildcard"),
                );
            }
            let file = self.files.get(import.file);
            let folder = file.and_then(|it| it.path.parent());
            let folder = folder.unwrap_or(Path::new(""));
            let Some(found) = self.imports.find(folder, &pattern) else {
                self.unknown.push((line, pattern));
                return Ok(());
            };
            for (path, text) in found {
                words.extend(tokens(&text, self.files.len()));
                let pattern = Some(pattern.clone());
                self.files.push(File { path, pattern });
            }
            words.iter_mut().for_each(|it| it.shown_line = line);
        }
        words.iter_mut().for_each(|it| it.import = self.count);
        self.rest.extend(words.into_iter().rev());
        Ok(())
    }
}

/// Why CoreDNS refuses a key. The value of a variable is unknown here.
fn key_fault(key: &str) -> Option<&'static str> {
    let rest = key.split_once("://").map_or(key, |(_, rest)| rest);
    let (zone, port) = rest.rsplit_once(':').unwrap_or((rest, "53"));
    let is_number = port.parse::<u16>().is_ok();
    let zone = if is_number { zone } else { rest };
    if key.contains("{$") || key.contains("{%") {
        None
    } else if port.is_empty() || rest.is_empty() {
        Some("its name, or its port, is empty")
    } else if zone.contains("..") || (zone.len() > 1 && zone.starts_with('.')) {
        Some("a `.` too many, or a space is missing before `{`")
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
