//! A Corefile without its secrets: the server blocks, the plugins, and the arguments of plugins that have no secret.

use std::collections::{BTreeMap, BTreeSet};

use collector::corefile::{Directive, KEY, parse, said};

/// Plugins whose arguments are shown. Their nested lines are not.
const SHOWN: [&str; 14] = [
    "bind",
    "cache",
    "dnstap",
    "errors",
    "forward",
    "health",
    "import",
    "kubernetes",
    "loadbalance",
    "log",
    "loop",
    "prometheus",
    "ready",
    "reload",
];

/// The files of a ConfigMap, as text.
pub(super) fn without_secrets(files: &BTreeMap<String, String>) -> String {
    let shown = files
        .iter()
        .map(|(file, text)| format!("# {file}\n{}", shown(file, text)));
    shown.collect::<Vec<_>>().join("\n")
}

/// The secrets of `dnstap` lines, which may be in other files of the archive.
pub(super) fn secrets(files: &BTreeMap<String, String>) -> BTreeSet<String> {
    let directives = files.iter().flat_map(|(file, text)| directives(file, text));
    let dnstap = directives.filter(|directive| directive.name == "dnstap");
    let secrets = dnstap.filter_map(|it| said(&it, "extra").map(|secret| secret.text.clone()));
    secrets.filter(|secret| !secret.is_empty()).collect()
}

/// A file beside the Corefile has directives without a block around them.
fn in_block(file: &str, text: &str) -> String {
    match file == KEY || text.contains('{') && parse(text).is_ok_and(|it| !it.blocks.is_empty()) {
        true => text.to_owned(),
        false => format!(". {{\n{text}\n}}"),
    }
}

fn directives(file: &str, text: &str) -> Vec<Directive> {
    let parsed = parse(&in_block(file, text)).unwrap_or_default();
    let blocks = parsed
        .blocks
        .into_iter()
        .chain(parsed.snippets.into_values());
    blocks.flat_map(|block| block.directives).collect()
}

fn shown(file: &str, text: &str) -> String {
    let parsed = match parse(&in_block(file, text)) {
        Ok(parsed) => parsed,
        Err(error) => return format!("left out: {error}\n"),
    };
    let mut lines = String::new();
    for import in &parsed.imports {
        lines += &format!("{}\n", line(import));
    }
    for block in parsed.blocks.iter().chain(parsed.snippets.values()) {
        lines += &format!("{} {{\n", block.keys.join(" "));
        for directive in &block.directives {
            lines += &format!("    {}\n", line(directive));
        }
        lines += "}\n";
    }
    lines
}

fn line(directive: &Directive) -> String {
    let mut words = vec![directive.name.as_str()];
    match SHOWN.contains(&directive.name.as_str()) {
        true => words.extend(directive.args.iter().map(|arg| arg.text.as_str())),
        false if directive.args.is_empty() => {}
        false => words.push("[arguments]"),
    }
    if !directive.nested.is_empty() {
        words.push("{ [lines] }");
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_plugins_are_shown_and_secrets_are_not() {
        let files = BTreeMap::from([
            (KEY.to_owned(), ".:53 {\n    dnstap tcp://10.0.0.1:6000 full {\n        extra hunter2\n    }\n    route53 example.com.:Z1 {\n        aws_access_key A B\n    }\n    acl x\n    cache 30\n}\n".to_owned()),
            ("more.override".to_owned(), "log\n".to_owned()),
            ("broken".to_owned(), "x {\n".to_owned()),
        ]);
        let text = without_secrets(&files);
        let expected = "# Corefile\n.:53 {\n    dnstap tcp://10.0.0.1:6000 full { [lines] }\n    route53 [arguments] { [lines] }\n    acl [arguments]\n    cache 30\n}\n\n# broken\nleft out: ";
        assert!(text.starts_with(expected), "{text}");
        assert!(
            text.ends_with("# more.override\n. {\n    log\n}\n"),
            "{text}"
        );
        assert_eq!(secrets(&files), BTreeSet::from(["hunter2".to_owned()]));
    }
}
