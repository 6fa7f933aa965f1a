//! The programs and schemas of OVN and Open vSwitch: those of this machine, or those of the folder that
//! `OVN_PROGRAMS` names. `scripts/setup --ovn-25.03` makes such a folder.

use std::{env, path::PathBuf};

/// A program, such as `ovsdb-server`.
pub fn program(name: &str) -> PathBuf {
    match folder() {
        Some(folder) => folder.join("bin").join(name),
        None => name.into(),
    }
}

/// A file of a package, such as `ovn/ovn-nb.ovsschema`.
pub fn shared(file: &str) -> PathBuf {
    let folder = folder().unwrap_or_else(|| "/usr".into());
    folder.join("share").join(file)
}

fn folder() -> Option<PathBuf> {
    env::var_os("OVN_PROGRAMS").map(PathBuf::from)
}
