//! Inserts the `dnstap` line into a Corefile, or removes it. All other bytes stay.

use std::ops::Range;

use anyhow::{Context, bail};

use super::{
    lint::{Effective, INDENT, Imports, Line, Scope, said},
    parse::{Block, Corefile, Directive, SyntaxError, parse},
};

/// Replacements of byte ranges.
#[derive(Debug, Default)]
struct Edits(Vec<(Range<usize>, String)>);

impl Edits {
    fn put(&mut self, place: Range<usize>, text: impl Into<String>) {
        let edit = (place, text.into());
        // Text that several blocks import is changed once.
        if !self.0.contains(&edit) {
            self.0.push(edit);
        }
    }

    fn apply(mut self, text: &str) -> String {
        self.0.sort_by_key(|(place, _)| place.start);
        let (mut out, mut at) = (String::with_capacity(text.len()), 0);
        for (place, new) in self.0 {
            out.push_str(text.get(at..place.start).unwrap_or_default());
            out.push_str(&new);
            at = place.end.max(at);
        }
        out.push_str(text.get(at..).unwrap_or_default());
        out
    }
}

/// The line ending of the file.
fn newline(text: &str) -> &'static str {
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
    let corefile = parse(text)?;
    let mut edits = Edits::default();
    let blocks = corefile.blocks.iter();
    for block in blocks.filter(|it| scope.is_external(it)) {
        let all = Effective::of(block, &corefile, imports);
        if all.directives.iter().any(|it| line.is_of(it)) {
            continue;
        }
        let indent = indent(text, block);
        let end = newline(text);
        let shown = line.shown(indent, end);
        let rest = text.get(block.body..).unwrap_or_default();
        // After a comment on the line of the brace, but before a directive there.
        let of_line = rest.split_inclusive('\n').next().unwrap_or_default();
        let of_line_end = block.body + of_line.len();
        let more = of_line.trim_start();
        if more.is_empty() || more.starts_with('#') {
            let new = match of_line.ends_with('\n') {
                true => format!("{indent}{shown}{end}"),
                false => format!("{end}{indent}{shown}"),
            };
            edits.put(of_line_end..of_line_end, new);
        } else {
            // Starts a new line, since CoreDNS would read it as arguments.
            let white = block.body..of_line_end - more.len();
            let indent_of_more = if more.starts_with('}') { "" } else { indent };
            edits.put(white, format!("{end}{indent}{shown}{end}{indent_of_more}"));
        }
    }
    for directive in written(&corefile).filter(|it| line.is_of(it)) {
        complete(text, directive, line, &mut edits);
    }
    Ok(edits.apply(text))
}

/// All directives in the text itself, without imports.
fn written(corefile: &Corefile) -> impl Iterator<Item = &Directive> {
    let blocks = corefile.blocks.iter().chain(corefile.snippets.values());
    blocks.flat_map(|block| &block.directives)
}

/// The white space before the directives of a block.
fn indent<'a>(text: &'a str, block: &Block) -> &'a str {
    let mut directives = block.directives.iter();
    directives
        .find_map(|it| before(text, it.span.start))
        .unwrap_or(INDENT)
}

/// The text before a position on its line, if it is white space.
fn before(text: &str, at: usize) -> Option<&str> {
    let front = text.get(..at)?;
    let line = front.rsplit('\n').next()?;
    line.trim().is_empty().then_some(line)
}

/// Completes an existing line.
fn complete(text: &str, directive: &Directive, line: &Line, edits: &mut Edits) {
    match directive.args.as_slice() {
        [_, full, ..] if full.text == "full" => {}
        [_, other, ..] => edits.put(other.span.clone(), "full"),
        [endpoint] => edits.put(endpoint.span.end..endpoint.span.end, " full"),
        [] => {}
    }
    let Some(extra) = &line.extra else { return };
    if let Some(value) = said(directive, "extra") {
        if value.text != *extra {
            edits.put(value.span.clone(), extra);
        }
        return;
    }
    let indent = before(text, directive.span.start).unwrap_or(INDENT);
    let end = newline(text);
    let place = directive.span.end;
    let has_block = text
        .get(directive.span.clone())
        .is_some_and(|it| it.ends_with('}'));
    if has_block {
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
pub(super) fn remove(text: &str, line: Option<&Line>) -> Result<String, SyntaxError> {
    let corefile = parse(text)?;
    let mut edits = Edits::default();
    for directive in written(&corefile) {
        let is_meant = match line {
            Some(line) => line.is_of(directive),
            None => directive.name == "dnstap",
        };
        if !is_meant {
            continue;
        }
        let Range { start, end } = directive.span;
        let behind = text.get(end..).unwrap_or_default();
        let of_line = behind.split_inclusive('\n').next().unwrap_or_default();
        match before(text, start) {
            // The directive has its line to itself, so the whole line goes.
            Some(white) if of_line.trim().is_empty() => {
                edits.put(start - white.len()..end + of_line.len(), "");
            }
            _ => edits.put(start..end, ""),
        }
    }
    Ok(edits.apply(text))
}

/// Makes a node-local cache forward external names to the cluster's DNS, which streams.
///
/// # Errors
/// The address of the cluster's DNS is unknown, or there is no line to change.
pub(super) fn forward_to_cluster(
    text: &str,
    scope: &Scope,
    cluster_dns: Option<&str>,
) -> anyhow::Result<String> {
    let corefile = parse(text)?;
    let forwards = |block: &Block| {
        let forwards = block.directives.iter().filter(|it| it.name == "forward");
        forwards.cloned().collect::<Vec<_>>()
    };
    let servers = |forward: &Directive| {
        let from = forward.args.get(1)?.span.start;
        let to = forward.args.last()?.span.end;
        Some(from..to)
    };
    let own = corefile.blocks.iter().filter(|it| scope.is_cluster(it));
    let own = own.flat_map(forwards).find_map(|it| servers(&it));
    let own = own.and_then(|place| text.get(place));
    let cluster_dns = cluster_dns.or(own).context(
        "no server block of the cluster domain has a `forward` line with the address of the cluster's DNS: give --cluster-dns",
    )?;
    let mut edits = Edits::default();
    let external = corefile.blocks.iter().filter(|it| scope.is_external(it));
    for forward in external.flat_map(forwards) {
        if let Some(place) = servers(&forward) {
            edits.put(place, cluster_dns);
        }
    }
    if edits.0.is_empty() {
        bail!("no server block for names outside of the cluster has a `forward` line");
    }
    Ok(edits.apply(text))
}

#[cfg(test)]
mod tests;
