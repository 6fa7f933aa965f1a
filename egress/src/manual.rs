//! Man pages and completions.

use std::{fs, io::Cursor, path::Path};

use anyhow::Context;
use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use runtime::args;

use crate::{
    PROGRAM,
    args::{Cli, PREFIX},
    output,
};

/// Prints the completions of a shell.
pub(crate) fn completion(shell: Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), PROGRAM, &mut script);
    output::line(String::from_utf8_lossy(&script).trim_end())?;
    Ok(())
}

/// Writes a page for the program and one for each subcommand.
///
/// # Errors
/// The folder cannot be written.
pub(crate) fn man(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    pages(folder, PROGRAM, command())
}

fn pages(folder: &Path, name: &str, mut command: Command) -> anyhow::Result<()> {
    command.build();
    for subcommand in command
        .get_subcommands()
        .filter(|it| it.get_name() != "help")
    {
        let name = format!("{name}-{}", subcommand.get_name());
        pages(
            folder,
            &name,
            subcommand.clone().disable_help_subcommand(true),
        )?;
    }
    let mut page = Cursor::new(Vec::new());
    Man::new(command.name(name.to_owned())).render(&mut page)?;
    let file = folder.join(format!("{name}.1"));
    fs::write(&file, page.into_inner()).with_context(|| file.display().to_string())
}

fn command() -> Command {
    args::command::<Cli>(PREFIX, "")
}
