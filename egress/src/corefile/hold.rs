//! Lets CoreDNS ask the collectors' forwarders first, and undoes it. All other bytes stay, and come back.

use std::net::SocketAddr;

use super::{
    lint::{Finding, INDENT, Scope},
    parse::{Block, Directive, Imports, SyntaxError, parse},
    patch::{Edits, before, newline},
};

/// The only upstream of blocks that are changed: the forwarders ask its servers. Those of another block may know other names.
const UPSTREAM: &str = "/etc/resolv.conf";

/// Behind the inserted options.
const MARK: &str = " # egress: hold";

/// Behind them if their block was inserted, too.
const MARK_OF_BLOCK: &str = " # egress: hold, with its block";

/// CoreDNS asks the forwarders in their order, and each again half a second after it failed.
const OPTIONS: [&str; 3] = ["policy sequential", "max_fails 1", "health_check 0.5s"];

/// Makes each block for external names ask these forwarders before its upstream. Returns the blocks that it leaves alone. A block of
/// an imported file is changed in that file.
///
/// # Errors
/// The text is no Corefile.
pub(super) fn add(
    text: &str,
    forwarders: &[SocketAddr],
    scope: &Scope,
    imports: &Imports,
) -> Result<(String, Vec<Finding>), SyntaxError> {
    let blocks = parse(text, imports)?.blocks;
    let (mut edits, mut left) = (Edits::default(), Vec::new());
    let own = blocks.iter().filter(|it| it.import.is_none());
    for block in own.filter(|it| scope.is_external(it)) {
        let keys = block.keys.join(" ");
        match directive(block).and_then(|it| insertion(text, it, forwarders, &mut edits)) {
            Ok(()) => {}
            Err(why) => left.push(Finding::warning(
                block.line,
                format!("`{keys}` is left as it is, and its answers are not held: {why}"),
            )),
        }
    }
    Ok((edits.apply(text), left))
}

/// Removes what [`add`] inserted.
///
/// # Errors
/// The text is no Corefile.
pub(super) fn remove(text: &str, imports: &Imports) -> Result<String, SyntaxError> {
    let mut edits = Edits::default();
    let blocks = parse(text, imports)?.blocks;
    for directive in blocks.iter().flat_map(|it| &it.directives) {
        let Some(inserted) = Inserted::of(text, directive) else {
            continue;
        };
        let (begin, end) = match inserted.has_block {
            true => (inserted.last, inserted.end),
            false => (inserted.open, inserted.mark_end),
        };
        edits.put(begin..end, "");
        edits.put(inserted.first..inserted.upstream, "");
    }
    Ok(edits.apply(text))
}

/// The `forward` line of a block.
fn directive(block: &Block) -> Result<&Directive, &'static str> {
    let mut all = block.directives.iter().filter(|it| it.name == "forward");
    match (all.next(), all.next()) {
        (Some(directive), None) => Ok(directive),
        (None, _) => Err("it has no `forward` line"),
        _ => Err("it has several `forward` lines"),
    }
}

/// Inserts the forwarders and the options.
fn insertion(
    text: &str,
    directive: &Directive,
    forwarders: &[SocketAddr],
    edits: &mut Edits,
) -> Result<(), &'static str> {
    let span = directive
        .span
        .as_ref()
        .ok_or("its `forward` line is imported")?;
    let listed = forwarders.iter().map(|it| format!("{it} "));
    let listed = listed.collect::<String>();
    if let Some(inserted) = Inserted::of(text, directive) {
        edits.put(inserted.first..inserted.upstream, listed);
        return Ok(());
    }
    let [_, upstream] = directive.args.as_slice() else {
        return Err("it has several upstreams");
    };
    if upstream.text != UPSTREAM {
        return Err("its upstream is not /etc/resolv.conf, whose servers the collectors ask");
    }
    let is_ours = |word: &str| OPTIONS.iter().any(|it| it.split(' ').next() == Some(word));
    if directive.nested.iter().any(|it| is_ours(&it.text)) {
        return Err("it has a `policy`, `max_fails` or `health_check` of its own");
    }
    let (indent, end) = (before(text, span.start).unwrap_or(INDENT), newline(text));
    let options = OPTIONS
        .map(|it| format!("{end}{indent}{INDENT}{it}"))
        .concat();
    match open_brace(text, upstream.span.end, span.end) {
        Some(open) => {
            let rest = text.get(open..).unwrap_or_default();
            let rest = rest.split('\n').next().unwrap_or_default().trim();
            if !rest.is_empty() && !rest.starts_with('#') {
                return Err("its `forward` block begins on the line of its brace");
            }
            edits.put(open..open, format!("{options}{MARK}"));
        }
        None => {
            let block = format!(" {{{options}{MARK_OF_BLOCK}{end}{indent}}}");
            edits.put(upstream.span.end..upstream.span.end, block);
        }
    }
    edits.put(upstream.span.start..upstream.span.start, listed);
    Ok(())
}

/// The position after the brace that opens the directive's own block.
fn open_brace(text: &str, from: usize, to: usize) -> Option<usize> {
    let behind = text.get(from..to)?;
    behind.find('{').map(|place| from + place + 1)
}

/// What [`add`] inserted into a directive, by its positions.
struct Inserted {
    /// The first forwarder.
    first: usize,
    /// The upstream behind the forwarders, and its end.
    upstream: usize,
    last: usize,
    /// The inside of the block.
    open: usize,
    mark_end: usize,
    end: usize,
    has_block: bool,
}

impl Inserted {
    fn of(text: &str, directive: &Directive) -> Option<Self> {
        let span = directive
            .span
            .as_ref()
            .filter(|_| directive.name == "forward")?;
        let (first, last) = (directive.args.get(1)?, directive.args.last()?);
        let open = open_brace(text, last.span.end, span.end)?;
        let inside = text.get(open..span.end)?;
        let mark = open + inside.find(MARK)?;
        let has_block = text.get(mark..)?.starts_with(MARK_OF_BLOCK);
        Some(Self {
            first: first.span.start,
            upstream: last.span.start,
            last: last.span.end,
            open,
            mark_end: mark + MARK.len(),
            end: span.end,
            has_block,
        })
    }
}

#[cfg(test)]
mod tests;
