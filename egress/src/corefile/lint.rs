//! Checks a Corefile: which server blocks answer for names outside of the cluster, whether they
//! stream to the collector, and what hides names.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    path::PathBuf,
};

use serde::Serialize;

use super::{
    lex::Token,
    parse::{Block, Corefile, Directive, SyntaxError, parse},
};

/// The indentation if a block has none.
pub(crate) const INDENT: &str = "    ";

/// The most levels of imports.
const MAX_DEPTH: usize = 20;

/// The names that a server answers for itself in the class CHAOS (RFC 4892): the plugin `chaos`.
const CHAOS: [&str; 5] = [
    "authors.bind",
    "hostname.bind",
    "id.server",
    "version.bind",
    "version.server",
];

/// The required `dnstap` line of a block.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Line {
    /// `tcp://192.0.2.1:6000`, `tls://…`, or the path of a unix socket.
    pub(crate) endpoint: String,
    /// The required value of `extra`, if any.
    pub(crate) extra: Option<String>,
}

/// The domains of the cluster's own names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Scope {
    /// `cluster.local`, without a dot at the end.
    pub(crate) cluster_domains: Vec<String>,
}

/// Where imported files are.
#[derive(Clone, Debug)]
pub(crate) enum Imports {
    /// The location is unknown.
    Unknown,
    /// Relative to this folder.
    Folder(PathBuf),
    /// These files, by name.
    Files(BTreeMap<String, String>),
}

/// A fault or a warning about a Corefile.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Finding {
    /// The line, from 1.
    pub(crate) line: usize,
    /// The collector does not receive some answers. Otherwise the finding is a warning.
    pub(crate) is_fault: bool,
    pub(crate) words: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_fault { "error" } else { "warning" };
        write!(f, "line {}: {kind}: {}", self.line, self.words)
    }
}

impl Scope {
    /// Whether the block answers for names outside of the cluster.
    pub(crate) fn is_external(&self, block: &Block) -> bool {
        block.keys.iter().any(|key| !self.is_own(&zone(key)))
    }

    /// Whether the block is for the cluster domain.
    pub(crate) fn is_cluster(&self, block: &Block) -> bool {
        let mut keys = block.keys.iter();
        keys.any(|key| self.cluster_domains.contains(&zone(key)))
    }

    fn is_own(&self, zone: &str) -> bool {
        let within = |domain: &str| {
            let front = zone.strip_suffix(domain);
            front.is_some_and(|front| front.is_empty() || front.ends_with('.'))
        };
        // A network is the zone of its reverse names.
        zone.contains('/')
            || within("in-addr.arpa")
            || within("ip6.arpa")
            || CHAOS.contains(&zone)
            || self.cluster_domains.iter().any(|domain| within(domain))
    }
}

/// The zone of a key: `tls://example.org:853` is for `example.org`. The root is empty; a network
/// stays as it is.
fn zone(key: &str) -> String {
    let rest = key.split_once("://").map_or(key, |(_, rest)| rest);
    if rest.contains('/') {
        return rest.to_owned();
    }
    let zone = rest.split(':').next().unwrap_or_default();
    zone.trim_end_matches('.').to_ascii_lowercase()
}

/// The endpoint without an optional `unix://`, which CoreDNS accepts before a path.
fn endpoint(text: &str) -> &str {
    text.strip_prefix("unix://").unwrap_or(text)
}

impl Line {
    /// Whether a directive streams to this endpoint as a client, which is the direction that works.
    pub(crate) fn is_of(&self, directive: &Directive) -> bool {
        directive.name == "dnstap"
            && directive.arg(0).map(endpoint) == Some(endpoint(&self.endpoint))
    }

    /// The text of the line, without the indentation of its first line; `end` ends a line.
    pub(crate) fn shown(&self, indent: &str, end: &str) -> String {
        let endpoint = &self.endpoint;
        match &self.extra {
            None => format!("dnstap {endpoint} full"),
            Some(extra) => {
                format!(
                    "dnstap {endpoint} full {{{end}{indent}{INDENT}extra {extra}{end}{indent}}}"
                )
            }
        }
    }

    /// The missing part of the directive, in words.
    fn lack(&self, directive: &Directive) -> Option<String> {
        if directive.arg(1) != Some("full") {
            return Some(
                "its `dnstap` line lacks `full`, so its events have no answers: add `full`"
                    .to_owned(),
            );
        }
        let shown = said(directive, "extra").map(|it| &it.text);
        (self.extra.as_ref() != shown && self.extra.is_some())
            .then(|| "its `dnstap` line has a wrong secret in `extra`, or none".to_owned())
    }
}

/// The argument of a word in the directive's own block.
pub(crate) fn said<'a>(directive: &'a Directive, word: &str) -> Option<&'a Token> {
    let mut from_word = directive.nested.iter().skip_while(|it| it.text != word);
    from_word.nth(1)
}

impl Imports {
    /// The contents of the files that a pattern matches; `None` if they are unknown.
    fn find(&self, pattern: &str) -> Option<Vec<String>> {
        let wanted = pattern.rsplit('/').next().unwrap_or_default();
        match self {
            Self::Unknown => None,
            // The keys of a ConfigMap are files of one folder; a path leads elsewhere.
            Self::Files(files) => {
                if pattern.trim_start_matches("./").contains('/') {
                    return None;
                }
                let found = files.iter().filter(|(file, _)| fits(wanted, file));
                Some(found.map(|(_, text)| text.clone()).collect())
            }
            Self::Folder(folder) => {
                let path = folder.join(pattern);
                let mut found: Vec<PathBuf> = fs::read_dir(path.parent()?)
                    .ok()?
                    .filter_map(|entry| Some(entry.ok()?.path()))
                    .filter(|path| {
                        let name = path.file_name().and_then(|name| name.to_str());
                        path.is_file() && name.is_some_and(|name| fits(wanted, name))
                    })
                    .collect();
                found.sort();
                found
                    .iter()
                    .map(|path| fs::read_to_string(path).ok())
                    .collect()
            }
        }
    }
}

/// Whether a name matches a pattern with at most one `*`, which is all that CoreDNS supports.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((front, back)) => {
            name.len() >= front.len() + back.len()
                && name.starts_with(front)
                && name.ends_with(back)
        }
    }
}

/// The directives of a block and of its imports, and the imports that are unknown.
#[derive(Debug, Default)]
pub(crate) struct Effective {
    pub(crate) directives: Vec<Directive>,
    pub(crate) unknown: Vec<(usize, String)>,
}

impl Effective {
    pub(crate) fn of(block: &Block, corefile: &Corefile, imports: &Imports) -> Self {
        let mut all = Self::default();
        all.take(&block.directives, corefile, imports, 0);
        all
    }

    fn take(
        &mut self,
        directives: &[Directive],
        corefile: &Corefile,
        imports: &Imports,
        depth: usize,
    ) {
        for directive in directives {
            if directive.name != "import" {
                self.directives.push(directive.clone());
                continue;
            }
            let pattern = directive.arg(0).unwrap_or_default();
            let unknown = || (directive.line, pattern.to_owned());
            let snippet = corefile.snippets.get(pattern);
            if depth >= MAX_DEPTH {
                self.unknown.push(unknown());
            } else if let Some(snippet) = snippet {
                self.take(&snippet.directives, corefile, imports, depth + 1);
            } else if let Some(texts) = imports.find(pattern) {
                for text in texts {
                    // A file of directives is parsed like the inside of a block.
                    let Ok(inner) = parse(&format!(". {{\n{text}\n}}")) else {
                        self.unknown.push(unknown());
                        continue;
                    };
                    let mut inside: Vec<Directive> = Vec::new();
                    inside.extend(inner.blocks.into_iter().flat_map(|it| it.directives));
                    inside.iter_mut().for_each(|it| it.line = directive.line);
                    self.take(&inside, corefile, imports, depth + 1);
                }
            } else {
                self.unknown.push(unknown());
            }
        }
    }
}

/// The findings of a Corefile, sorted by line. Each of `lines` is required. Without any,
/// `endpoints` lines are.
///
/// # Errors
/// The text is no Corefile.
pub(crate) fn findings(
    text: &str,
    lines: &[Line],
    endpoints: usize,
    scope: &Scope,
    imports: &Imports,
) -> Result<Vec<Finding>, SyntaxError> {
    let corefile = parse(text)?;
    let mut found = Vec::new();
    let mut tell = |line, is_fault, words: String| {
        let finding = Finding {
            line,
            is_fault,
            words,
        };
        if !found.contains(&finding) {
            found.push(finding);
        }
    };
    let lint = Lint {
        lines,
        endpoints,
        scope,
        imports,
    };
    lint.look_at(&corefile, &mut tell);
    for import in &corefile.imports {
        let pattern = import.arg(0).unwrap_or_default();
        let inner = imports.find(pattern).unwrap_or_default();
        if inner.is_empty() {
            let words =
                format!("`import {pattern}`: the imported server blocks cannot be checked here");
            tell(import.line, false, words);
        }
        for text in inner {
            let mut tell = |_, is_fault, words: String| {
                let words = format!("`import {pattern}`: {words}");
                tell(import.line, is_fault, words);
            };
            match parse(&text) {
                Ok(inner) => lint.look_at(&inner, &mut tell),
                Err(error) => tell(import.line, true, error.to_string()),
            }
        }
    }
    found.sort_by_key(|finding| finding.line);
    Ok(found)
}

/// The findings of a NodeLocal DNSCache's Corefile, whose CoreDNS has no dnstap. They are the
/// blocks that send external names elsewhere than to the cluster's DNS, so that no collector
/// receives the answers.
///
/// # Errors
/// The text is no Corefile.
pub(crate) fn bypasses(
    text: &str,
    scope: &Scope,
    imports: &Imports,
) -> Result<Vec<Finding>, SyntaxError> {
    let corefile = parse(text)?;
    let targets = |block: &Block| -> Vec<String> {
        let all = Effective::of(block, &corefile, imports);
        let forwards = all.directives.iter().filter(|it| it.name == "forward");
        let targets = forwards.flat_map(|it| it.args.iter().skip(1));
        targets.map(|target| target.text.clone()).collect()
    };
    let own = corefile.blocks.iter().filter(|it| scope.is_cluster(it));
    let own: Vec<String> = own.flat_map(targets).collect();
    let mut found = Vec::new();
    for block in corefile.blocks.iter().filter(|it| scope.is_external(it)) {
        let all = Effective::of(block, &corefile, imports);
        let streams = all.directives.iter().any(|it| it.name == "dnstap");
        let past: Vec<String> = targets(block)
            .into_iter()
            .filter(|it| !own.contains(it))
            .collect();
        if !streams && !past.is_empty() {
            let words = format!(
                "`{}` sends names past the cluster's DNS, to {}: the collector does not receive the answers (egress corefile patch --node-local)",
                block.keys.join(" "),
                past.join(" ")
            );
            found.push(Finding {
                line: block.line,
                is_fault: true,
                words,
            });
        }
    }
    Ok(found)
}

/// The requirements for server blocks.
struct Lint<'a> {
    lines: &'a [Line],
    /// The number of required lines if none is given.
    endpoints: usize,
    scope: &'a Scope,
    imports: &'a Imports,
}

impl Lint<'_> {
    fn look_at(&self, corefile: &Corefile, tell: &mut dyn FnMut(usize, bool, String)) {
        let blocks = corefile.blocks.iter();
        for block in blocks.filter(|it| self.scope.is_external(it)) {
            let all = Effective::of(block, corefile, self.imports);
            let keys = block.keys.join(" ");
            for (line, pattern) in &all.unknown {
                let words = format!("`import {pattern}`: the imported text cannot be checked here");
                tell(*line, false, words);
            }
            self.look_at_streams(block, &all, tell);
            for directive in &all.directives {
                if let Some(words) = hides(directive) {
                    tell(directive.line, false, format!("`{keys}`: {words}"));
                }
            }
        }
    }

    fn look_at_streams(
        &self,
        block: &Block,
        all: &Effective,
        tell: &mut dyn FnMut(usize, bool, String),
    ) {
        let keys = block.keys.join(" ");
        let any = Line {
            endpoint: "ENDPOINT".to_owned(),
            extra: None,
        };
        let (lines, endpoints) = match self.lines {
            [] => (std::slice::from_ref(&any), self.endpoints),
            lines => (lines, 1),
        };
        for line in lines {
            let is_wanted = |it: &&Directive| match self.lines {
                [] => it.name == "dnstap" && it.arg(0) != Some("listen"),
                _ => line.is_of(it),
            };
            let found: Vec<&Directive> = all.directives.iter().filter(is_wanted).collect();
            let different: BTreeSet<_> = found.iter().map(|it| it.arg(0)).collect();
            if found.is_empty() {
                let words = format!(
                    "the collector does not receive the answers of `{keys}`: add the line `dnstap {} full`",
                    line.endpoint
                );
                tell(block.line, true, words);
            } else if different.len() < endpoints {
                let words = format!(
                    "`{keys}` streams to {} of {endpoints} collectors: add a `dnstap` line for each",
                    different.len()
                );
                tell(block.line, true, words);
            }
            for directive in found {
                if let Some(lack) = line.lack(directive) {
                    tell(directive.line, true, format!("`{keys}`: {lack}"));
                }
            }
        }
    }
}

/// The effect of a directive that hides names.
fn hides(directive: &Directive) -> Option<&'static str> {
    match directive.name.as_str() {
        "autopath" => Some(
            "`autopath` answers a name of the search path with the addresses of another name: the event does not have the name of the rule",
        ),
        "rewrite" => Some(
            "`rewrite`: events have the name that the pod queried; a rule for the name that it is rewritten to gets no addresses",
        ),
        "cache" if directive.nested.iter().any(|it| it.text == "serve_stale") => Some(
            "`cache` with `serve_stale` serves addresses after their TTL: give the collector a `--retain` as long",
        ),
        "dnstap" if directive.arg(0) == Some("listen") => Some(
            "`dnstap listen` corrupts frames under load, and delays answers when its reader stalls: let CoreDNS dial the collector",
        ),
        _ => None,
    }
}
