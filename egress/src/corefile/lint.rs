//! Checks a Corefile: which server blocks answer for names outside of the cluster, whether they
//! stream to the collector, and what hides names.

use std::{collections::BTreeSet, fmt};

use super::{
    lex::Token,
    parse::{Block, Corefile, Directive},
};

/// The indentation if a block has none.
pub(crate) const INDENT: &str = "    ";

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

/// A fault or a warning about a Corefile.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Finding {
    /// The line, from 1.
    pub(crate) line: usize,
    /// The collector does not receive some answers. Otherwise the finding is a warning.
    pub(crate) is_fault: bool,
    pub(crate) words: String,
}

impl Finding {
    pub(crate) fn fault(line: usize, words: String) -> Self {
        let is_fault = true;
        Self {
            line,
            is_fault,
            words,
        }
    }

    pub(crate) fn warning(line: usize, words: String) -> Self {
        let is_fault = false;
        Self {
            line,
            is_fault,
            words,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_fault { "error" } else { "warning" };
        write!(f, "line {}: {kind}: {}", self.line, self.words)
    }
}

impl Scope {
    pub(crate) fn new(domains: &[String]) -> Self {
        let plain = |domain: &String| domain.trim_end_matches('.').to_ascii_lowercase();
        Self {
            cluster_domains: domains.iter().map(plain).collect(),
        }
    }

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

    /// The line of a directive, which may lack something.
    pub(crate) fn of(directive: &Directive) -> Option<Self> {
        Some(Self {
            endpoint: directive.arg(0)?.to_owned(),
            extra: said(directive, "extra").map(|it| it.text.clone()),
        })
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
    fn lack(line: Option<&Self>, directive: &Directive) -> Option<&'static str> {
        if directive.arg(1) != Some("full") {
            return Some(
                "its `dnstap` line lacks `full`, so its events have no answers: add `full`",
            );
        }
        let wanted = line.and_then(|it| it.extra.as_ref())?;
        let is_there = said(directive, "extra").is_some_and(|it| it.text == *wanted);
        (!is_there).then_some("its `dnstap` line has a wrong secret in `extra`, or none")
    }
}

/// The argument of a word in the directive's own block.
pub(crate) fn said<'a>(directive: &'a Directive, word: &str) -> Option<&'a Token> {
    let mut from_word = directive.nested.iter().skip_while(|it| it.text != word);
    from_word.nth(1)
}

/// The findings of a Corefile, sorted by line. Each of `lines` is required. Without any, one line is.
pub(crate) fn findings(corefile: &Corefile, lines: &[Line], scope: &Scope) -> Vec<Finding> {
    // Blocks that import the same text have the same findings.
    let mut found = BTreeSet::new();
    for (line, pattern) in &corefile.unknown {
        let words =
            format!("`import {pattern}`: the imported server blocks cannot be checked here");
        found.insert(Finding::warning(*line, words));
    }
    for block in corefile.blocks.iter().filter(|it| scope.is_external(it)) {
        let mut all = Vec::new();
        let keys = block.keys.join(" ");
        for (line, pattern) in &block.unknown {
            let words = format!("`import {pattern}`: the imported text cannot be checked here");
            all.push(Finding::warning(*line, words));
        }
        let any = lines.is_empty().then_some(None);
        for line in lines.iter().map(Some).chain(any) {
            let is_of = |it: &&Directive| match line {
                Some(line) => line.is_of(it),
                None => it.name == "dnstap" && it.arg(0) != Some("listen"),
            };
            let mut of_line = block.directives.iter().filter(is_of).peekable();
            if of_line.peek().is_none() {
                let endpoint = line.map_or("ENDPOINT", |it| &it.endpoint);
                let words = format!(
                    "the collector does not receive the answers of `{keys}`: add the line `dnstap {endpoint} full`"
                );
                all.push(Finding::fault(block.line, words));
            }
            for directive in of_line {
                let lack = Line::lack(line, directive).map(|it| format!("`{keys}`: {it}"));
                all.extend(lack.map(|words| Finding::fault(directive.line, words)));
            }
        }
        for directive in &block.directives {
            let words = hides(directive).map(|it| format!("`{keys}`: {it}"));
            all.extend(words.map(|words| Finding::warning(directive.line, words)));
        }
        if let Some(pattern) = &block.import {
            for finding in &mut all {
                finding.words = format!("`import {pattern}`: {}", finding.words);
            }
        }
        found.extend(all);
    }
    found.into_iter().collect()
}

/// The servers to which a block forwards.
pub(crate) fn upstreams(block: &Block) -> impl Iterator<Item = &str> {
    let forwards = block.directives.iter().filter(|it| it.name == "forward");
    let targets = forwards.flat_map(|it| it.args.iter().skip(1));
    targets.map(|it| it.text.as_str())
}

/// The findings of a NodeLocal DNSCache's Corefile, whose CoreDNS has no dnstap. They are the
/// blocks that send external names elsewhere than to the cluster's DNS, so that no collector
/// receives the answers.
pub(crate) fn bypasses(corefile: &Corefile, scope: &Scope) -> Vec<Finding> {
    let blocks = &corefile.blocks;
    let own = blocks.iter().filter(|it| scope.is_cluster(it));
    let own: BTreeSet<&str> = own.flat_map(upstreams).collect();
    let mut found = Vec::new();
    for block in blocks.iter().filter(|it| scope.is_external(it)) {
        let streams = block.directives.iter().any(|it| it.name == "dnstap");
        let past: Vec<&str> = upstreams(block).filter(|it| !own.contains(it)).collect();
        if !streams && !past.is_empty() {
            let words = format!(
                "`{}` sends names past the cluster's DNS, to {}: the collector does not receive the answers",
                block.keys.join(" "),
                past.join(" ")
            );
            found.push(Finding::fault(block.line, words));
        }
    }
    found
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
