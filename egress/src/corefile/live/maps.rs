//! The ConfigMaps of a Corefile, and what a patch makes of them. No IO.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

use diffy::DiffOptions;

use super::super::{
    CUSTOM, KEY, added,
    lint::{Finding, Line, Scope},
    parse::{Block, Imports, SyntaxError, custom_files, parse},
    removed, with_hold,
};

/// The key in [`CUSTOM`], without the ending that the Corefile imports.
const CUSTOM_KEY: &str = "egress-by-name";

pub(super) type Data = BTreeMap<String, String>;

/// What the ConfigMaps have.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Maps {
    pub(super) main: Data,
    pub(super) custom: Data,
}

impl Maps {
    pub(super) fn corefile(&self) -> &str {
        self.main.get(KEY).map_or("", String::as_str)
    }

    pub(super) fn imports(&self) -> Imports {
        let mut files = self.main.clone();
        files.remove(KEY);
        files.extend(custom_files(self.custom.clone()));
        Imports::Files(files)
    }

    /// With these lines, or without them.
    pub(super) fn patched(
        &self,
        lines: &[Line],
        scope: &Scope,
        is_removal: bool,
    ) -> Result<Self, SyntaxError> {
        let mut new = self.clone();
        let imports = self.imports();
        let change = |text: &str| match is_removal {
            true => removed(text, lines, &imports),
            false => added(text, lines, scope, &imports),
        };
        for (key, text) in &self.custom {
            if key.ends_with(".server") {
                new.custom.insert(key.clone(), change(text)?);
            }
        }
        let custom = custom_key(self.corefile(), scope)?;
        if custom.is_none() || is_removal {
            new.main.insert(KEY.to_owned(), change(self.corefile())?);
        }
        let Some((key, blocks)) = custom else {
            return Ok(new);
        };
        let before = new.custom.remove(&key);
        let mut wanted = lines.to_vec();
        if is_removal {
            // Lines of other collectors stay.
            let text = before.unwrap_or_default();
            let all = parse(&format!(". {{\n{text}\n}}"), &Imports::Unknown)?;
            let all = all.blocks.iter().flat_map(|it| &it.directives);
            let kept = all.filter(|it| !lines.iter().any(|line| line.is_of(it)));
            wanted = kept.filter_map(Line::of).collect();
        } else {
            // Without our key: another key may have a line.
            let all = parse(self.corefile(), &new.imports())?.blocks;
            let importing = |it: &&Block| it.import.is_none() && blocks.contains(&it.line);
            let lacks = |line: &Line| {
                let mut blocks = all.iter().filter(importing);
                blocks.any(|block| !block.directives.iter().any(|it| line.is_of(it)))
            };
            wanted.retain(lacks);
        }
        if !wanted.is_empty() {
            let wanted = wanted.iter().map(|line| line.shown("", "\n") + "\n");
            new.custom.insert(key, wanted.collect());
        }
        Ok(new)
    }

    /// With these forwarders, or without any; and the blocks that are left alone.
    pub(super) fn with_hold(
        &self,
        forwarders: Option<&[SocketAddr]>,
        scope: &Scope,
    ) -> Result<(Self, Vec<Finding>), SyntaxError> {
        let (mut new, mut left) = (self.clone(), Vec::new());
        let imports = self.imports();
        let main = new.main.iter_mut().filter(|(key, _)| *key == KEY);
        let custom = new.custom.iter_mut();
        for (_, text) in main.chain(custom.filter(|(key, _)| key.ends_with(".server"))) {
            let (changed, of_text) = with_hold(text, forwarders, scope, &imports)?;
            *text = changed;
            left.extend(of_text);
        }
        Ok((new, left))
    }

    /// The change as a unified diff. Empty if there is none.
    pub(super) fn diff(&self, new: &Self, namespace: &str, name: &str) -> String {
        let mut diff = String::new();
        for (name, old, new) in [
            (name, &self.main, &new.main),
            (CUSTOM, &self.custom, &new.custom),
        ] {
            let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for key in keys {
                let [old, new] = [old, new].map(|it| it.get(key).map_or("", String::as_str));
                if old != new {
                    let header = format!("{namespace}/{name} {key}");
                    let mut options = DiffOptions::new();
                    options.set_original_filename(header.clone());
                    options.set_modified_filename(header);
                    diff += &options.create_patch(old, new).to_string();
                }
            }
        }
        diff
    }
}

/// The key of [`CUSTOM`] that blocks for external names import, if any, with the lines of these blocks.
fn custom_key(
    corefile: &str,
    scope: &Scope,
) -> Result<Option<(String, BTreeSet<usize>)>, SyntaxError> {
    let mut found: Option<(String, BTreeSet<usize>)> = None;
    let blocks = parse(corefile, &Imports::Unknown)?.blocks;
    for block in blocks.iter().filter(|it| scope.is_external(it)) {
        for (_, pattern) in &block.unknown {
            let below = pattern.trim_start_matches("/etc/coredns/");
            let ending = below.trim_start_matches("./").strip_prefix("custom/*");
            let Some(ending) = ending.filter(|it| !it.contains('/')) else {
                continue;
            };
            let key = format!("{CUSTOM_KEY}{ending}");
            let (_, lines) = found.get_or_insert((key, BTreeSet::new()));
            lines.insert(block.line);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
