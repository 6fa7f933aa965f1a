//! An archive in the format ustar (POSIX.1-1988, `tar`).

use anyhow::{Context, ensure};

use super::contents::File;

/// The size of a header, and of the parts of a file's content.
const BLOCK: usize = 512;

/// The longest name without the prefix field.
const LONGEST_NAME: usize = 100;

/// The files, with two empty blocks behind them.
///
/// # Errors
/// A name is too long for the format.
pub(super) fn tar(files: &[File]) -> anyhow::Result<Vec<u8>> {
    let mut archive = Vec::new();
    for file in files {
        archive.extend(header(&file.name, file.text.len()).with_context(|| file.name.clone())?);
        archive.extend(file.text.as_bytes());
        archive.resize(archive.len().next_multiple_of(BLOCK), 0);
    }
    archive.resize(archive.len() + 2 * BLOCK, 0);
    Ok(archive)
}

fn header(name: &str, size: usize) -> anyhow::Result<Vec<u8>> {
    // A name of two parts: the separator between them is not stored.
    let split = match name.len() {
        ..=LONGEST_NAME => None,
        long => name
            .match_indices('/')
            .map(|(at, _)| at)
            .find(|at| long - at - 1 <= LONGEST_NAME),
    };
    let (prefix, name) = split
        .and_then(|at| name.split_at_checked(at))
        .map_or(("", name), |(prefix, rest)| {
            (prefix, rest.trim_start_matches('/'))
        });
    ensure!(
        name.len() <= LONGEST_NAME && prefix.len() <= 155,
        "the name is too long"
    );
    let mut header = Vec::with_capacity(BLOCK);
    let mut field = |text: &str, width: usize| {
        let end = header.len() + width;
        header.extend(text.as_bytes());
        header.resize(end, 0);
    };
    field(name, LONGEST_NAME);
    field("0000600", 8);
    field("0000000", 8);
    field("0000000", 8);
    field(&format!("{size:011o}"), 12);
    field(&format!("{:011o}", 0), 12);
    // The checksum counts its own field as spaces.
    field("        ", 8);
    field("0", 1);
    field("", 100);
    field("ustar", 6);
    field("00", 2);
    field("", 32);
    field("", 32);
    field("", 8);
    field("", 8);
    field(prefix, 155);
    field("", 12);
    let sum: u32 = header.iter().copied().map(u32::from).sum();
    header.splice(148..156, format!("{sum:06o}\0 ").bytes());
    Ok(header)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn tar_reads_the_files_again_also_with_long_names() {
        let folder = tempfile::tempdir().unwrap();
        let long = format!("{}/{}/status.json", "a".repeat(90), "b".repeat(60));
        let file = |name: &str, text: &str| File {
            name: name.to_owned(),
            text: text.to_owned(),
        };
        let files = [
            file("check.txt", "x"),
            file(&long, &"y".repeat(BLOCK)),
            file("empty", ""),
        ];
        let archive = folder.path().join("x.tar");
        std::fs::write(&archive, tar(&files).unwrap()).unwrap();
        let untar = Command::new("tar")
            .arg("-xf")
            .arg(&archive)
            .current_dir(&folder)
            .output();
        assert!(untar.as_ref().unwrap().status.success(), "{untar:?}");
        for File { name, text } in files {
            assert_eq!(
                std::fs::read_to_string(folder.path().join(name)).unwrap(),
                text
            );
        }
        assert!(tar(&[file(&"c".repeat(101), "")]).is_err());
    }
}
