//! Inserts the `dnstap` line into a Corefile, or removes it. All other bytes stay, and come back with the removal.

use std::ops::Range;

use super::{
    lint::{INDENT, Line, Scope, said},
    parse::{Block, Directive, Imports, SyntaxError, parse},
};

/// Behind an inserted line that needed line breaks, so that its removal removes them.
const BREAKS: &str = " # egress: with its line breaks";

/// Replacements of byte ranges.
#[derive(Debug, Default)]
pub(super) struct Edits(Vec<(Range<usize>, String)>);

impl Edits {
    pub(super) fn put(&mut self, place: Range<usize>, text: impl Into<String>) {
        let edit = (place, text.into());
        // Text that several blocks import is changed once.
        if !self.0.contains(&edit) {
            self.0.push(edit);
        }
    }

    pub(super) fn apply(mut self, text: &str) -> String {
        let mut text = text.to_owned();
        self.0.sort_by_key(|(place, _)| place.start);
        for (place, new) in self.0.into_iter().rev() {
            text.replace_range(place, &new);
        }
        text
    }
}

/// The line ending of the file.
pub(super) fn newline(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// Makes every server block for external names stream whole messages to the line's endpoint.
/// Changes nothing if all do.
///
/// # Errors
/// The text is no Corefile.
pub(super) fn add(
    text: &str,
    line: &Line,
    scope: &Scope,
    imports: &Imports,
) -> Result<String, SyntaxError> {
    let blocks = parse(text, imports)?.blocks;
    let mut edits = Edits::default();
    for block in blocks.iter().filter(|it| scope.is_external(it)) {
        let is_there = block.directives.iter().any(|it| line.is_of(it));
        // A block of an imported file is patched there.
        let Some(body) = block.body.filter(|_| !is_there) else {
            continue;
        };
        let indent = indent(text, block);
        let end = newline(text);
        let shown = line.shown(indent, end);
        let rest = text.get(body..).unwrap_or_default();
        // After a comment on the line of the brace, but before a directive there.
        let of_line = rest.split_inclusive('\n').next().unwrap_or_default();
        let more = of_line.trim_start();
        if !more.is_empty() && !more.starts_with('#') {
            // On a line of its own, since CoreDNS would read the rest of this line as arguments.
            edits.put(body..body, format!("{end}{indent}{shown}{BREAKS}{end}"));
            continue;
        }
        let new = match of_line.ends_with('\n') {
            true => format!("{indent}{shown}{end}"),
            false => format!("{end}{indent}{shown}"),
        };
        let of_line_end = body + of_line.len();
        edits.put(of_line_end..of_line_end, new);
    }
    for directive in blocks.iter().flat_map(|it| &it.directives) {
        if let Some(span) = directive.span.as_ref().filter(|_| line.is_of(directive)) {
            complete(text, directive, span, line, &mut edits);
        }
    }
    Ok(edits.apply(text))
}

/// The white space before the directives of a block.
fn indent<'a>(text: &'a str, block: &Block) -> &'a str {
    let mut spans = block.directives.iter().filter_map(|it| it.span.as_ref());
    spans
        .find_map(|it| before(text, it.start))
        .unwrap_or(INDENT)
}

/// The text before a position on its line, if it is white space.
pub(super) fn before(text: &str, at: usize) -> Option<&str> {
    let front = text.get(..at)?;
    let line = front.rsplit('\n').next()?;
    line.trim().is_empty().then_some(line)
}

/// Completes an existing line.
fn complete(
    text: &str,
    directive: &Directive,
    span: &Range<usize>,
    line: &Line,
    edits: &mut Edits,
) {
    match directive.args.as_slice() {
        [_, full, ..] if full.text == "full" => {}
        [_, other, ..] => edits.put(other.span.clone(), "full"),
        [endpoint] => edits.put(endpoint.span.end..endpoint.span.end, " full"),
        [] => {}
    }
    let Some(extra) = &line.extra else { return };
    if let Some(value) = said(directive, "extra").filter(|it| it.file == 0) {
        if value.text != *extra {
            edits.put(value.span.clone(), extra);
        }
        return;
    }
    let indent = before(text, span.start).unwrap_or(INDENT);
    let end = newline(text);
    let place = span.end;
    if text.get(..place).is_some_and(|it| it.ends_with('}')) {
        edits.put(
            place - 1..place - 1,
            format!("{INDENT}extra {extra}{end}{indent}"),
        );
    } else {
        let block = format!(" {{{end}{indent}{INDENT}extra {extra}{end}{indent}}}");
        edits.put(place..place, block);
    }
}

/// Removes the lines that stream to this endpoint, or all lines.
///
/// # Errors
/// The text is no Corefile.
pub(super) fn remove(
    text: &str,
    line: Option<&Line>,
    imports: &Imports,
) -> Result<String, SyntaxError> {
    let is_meant = |it: &Directive| match line {
        Some(line) => line.is_of(it),
        None => it.name == "dnstap",
    };
    let mut text = text.to_owned();
    loop {
        let blocks = parse(&text, imports)?.blocks;
        let mut all = blocks.iter().flat_map(|it| &it.directives);
        let found = all.find_map(|it| it.span.clone().filter(|_| is_meant(it)));
        let Some(Range { start, end }) = found else {
            return Ok(text);
        };
        let behind = text.get(end..).unwrap_or_default();
        let of_line = behind.split_inclusive('\n').next().unwrap_or_default();
        let is_marked = of_line.trim_end() == BREAKS;
        let place = match before(&text, start) {
            // The directive has its line to itself, so the whole line goes.
            Some(white) if of_line.trim().is_empty() || is_marked => {
                let from = start - white.len();
                let front = text.get(..from).unwrap_or_default();
                // The line breaks before go with it where it had come with them. The second line of a collector stands between.
                let is_first = blocks
                    .iter()
                    .any(|it| it.body == Some(front.trim_end().len()));
                let has_breaks = is_marked && is_first || of_line.is_empty();
                let from = if has_breaks {
                    let front = front.strip_suffix('\n').unwrap_or(front);
                    front.strip_suffix('\r').unwrap_or(front).len()
                } else {
                    from
                };
                from..end + of_line.len()
            }
            _ => start..end,
        };
        text.replace_range(place, "");
    }
}

#[cfg(test)]
mod tests;
