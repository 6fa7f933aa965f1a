//! The paths of objects in the folder, and their valid names.
//!
//! `PATH/<namespace>/<plural kind>/<name>.yaml`, as in `PATH/ovn-kubernetes/dnsnameresolvers/x.yaml`. Names that begin
//! with a dot are not objects.

use super::super::{
    ObjectKey,
    names::{self, is_object_name},
};

/// The lock file in `PATH`, held during every write.
pub(super) const LOCK: &str = ".lock";

/// The prefix of temporary files, in the folder of their kind.
const TEMPORARY: &str = ".tmp";

const EXTENSION: &str = ".yaml";

/// `NAME_MAX` of Linux file systems, in bytes.
const MAX_FILE_NAME: usize = 255;

/// The name of an object's file.
pub(super) fn file_name(name: &str) -> String {
    format!("{name}{EXTENSION}")
}

/// The name of a temporary file. Each of the writes at one time has another slot.
pub(super) fn temporary(slot: usize) -> String {
    format!("{TEMPORARY}{slot}")
}

/// Whether a file is being written, or was left by a killed process.
pub(super) fn is_temporary(file_name: &str) -> bool {
    file_name.starts_with(TEMPORARY)
}

/// The meaning of a name in a folder of objects.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Entry<'a> {
    /// The object of this name.
    Object(&'a str),
    /// Probably meant as an object, but misnamed, for this reason.
    Misnamed(&'static str),
    /// Any other file: a dot-file, a note, an editor's backup.
    Other,
}

/// Classifies a name in a folder of objects.
pub(super) fn entry(file_name: &str) -> Entry<'_> {
    if file_name.starts_with('.') {
        Entry::Other
    } else if let Some(name) = file_name.strip_suffix(EXTENSION) {
        if is_object_name(name) {
            Entry::Object(name)
        } else {
            Entry::Misnamed(
                "not the name of an object, which is of lower-case letters, digits, `-` and `.`",
            )
        }
    } else if file_name.ends_with(".yml") || file_name.ends_with(".json") {
        Entry::Misnamed("only files that end in `.yaml` are read")
    } else {
        Entry::Other
    }
}

/// Whether an object of this key can be stored.
pub(super) fn check(key: &ObjectKey) -> Result<(), &'static str> {
    names::check(key)?;
    if file_name(&key.name).len() > MAX_FILE_NAME {
        return Err("the name is too long for a file");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_yaml_files_with_an_objects_name_are_objects() {
        assert_eq!(entry("a.b.yaml"), Entry::Object("a.b"));
        for name in ["A.yaml", "a.yml", "a.json", "a_b.yaml"] {
            assert!(matches!(entry(name), Entry::Misnamed(_)), "{name}");
        }
        for name in [".a.yaml", LOCK, TEMPORARY, "..data", "README.md", "a.yaml~"] {
            assert_eq!(entry(name), Entry::Other, "{name}");
        }
    }

    #[test]
    fn a_name_too_long_for_a_file_cannot_be_stored() {
        let key = |name: String| ObjectKey {
            namespace: "x".to_owned(),
            name,
        };
        assert!(check(&key("a".repeat(250))).is_ok());
        assert!(check(&key("a".repeat(251))).is_err());
        assert!(check(&key("../../etc/x".to_owned())).is_err());
    }
}
