//! The page of flags: what `--help` says, in tables.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use clap::{Arg, Command};

/// Set to anything to write the page instead of comparing it.
const UPDATE: &str = "UPDATE_GENERATED";

const HEAD: &str = "<!-- Generated from the programs; see tests/tests/programs/flags.rs. -->\n\n# Flags\n\n\
The tables have the texts of `--help`. `-h` prints the first sentences.\n\n\
- Each flag of the collector, the ovn-writer and the policy-writer has an environment variable. Of the flags of subcommands, only those have one that tell\n  \
where to read, and `--extra`. The flag wins over the variable. An empty variable counts as none.\n\
- A repeatable flag, and its variable, may have a list with commas.\n\
- A duration has a unit: `100ms`, `5s`, `10m`, `2h`, `7d` or `1h 30m`. `0` needs none.\n\
- A size is a number of bytes, or has a unit: `65536`, `64KiB`, `16MiB` or `1GiB`.\n";

fn commands() -> [Command; 4] {
    use runtime::args::command;
    [
        command::<collector::args::Args>(collector::args::PREFIX, collector::args::ADMIN),
        command::<ovn_writer::Args>(ovn_writer::PREFIX, ovn_writer::ADMIN),
        command::<policy_writer::Args>(policy_writer::PREFIX, policy_writer::ADMIN),
        command::<egress::args::Cli>(egress::args::PREFIX, ""),
    ]
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/flags.md")
}

#[test]
fn the_page_of_flags_is_current() {
    let mut page = HEAD.to_owned();
    for command in commands() {
        document(&[&command], &mut page);
    }
    if std::env::var_os(UPDATE).is_some() {
        fs::write(path(), &page).unwrap();
    }
    assert!(
        fs::read_to_string(path()).unwrap_or_default() == page,
        "docs/flags.md is not what the programs give; run this test with {UPDATE}=1"
    );
}

/// The variables of a command and of its subcommands.
fn variables(command: &Command) -> BTreeSet<String> {
    let own = command.get_arguments().filter_map(|arg| help(arg).1);
    let own = own.map(|variable| variable.trim_matches('`').to_owned());
    own.chain(command.get_subcommands().flat_map(variables))
        .collect()
}

#[test]
fn programs_know_every_variable_that_the_chart_sets() {
    let known: BTreeSet<_> = commands().iter().flat_map(variables).collect();
    let templates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/chart/templates");
    let prefixes = ["COLLECTOR_", "OVN_WRITER_", "POLICY_WRITER_", "EGRESS_"];
    let mut set = BTreeSet::new();
    for file in [
        "collector/deployment",
        "ovn-writer/workload",
        "policy-writer/deployment",
    ] {
        let text = fs::read_to_string(templates.join(format!("{file}.yaml"))).unwrap();
        let names = text.split("name: ").skip(1);
        let names = names.filter_map(|rest| rest.split([',', '\n', '}']).next());
        let ours = names.filter(|name| prefixes.iter().any(|it| name.starts_with(it)));
        set.extend(ours.map(str::to_owned));
    }
    assert!(set.contains("EGRESS_POLICY_WRITER"), "{set:?}");
    let unknown: Vec<_> = set.difference(&known).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// A section of the last of these commands, and those of its subcommands. Flags that a command above it has, too, are only
/// named if they have no variable here.
fn document(path: &[&Command], page: &mut String) {
    let (command, above) = path.split_last().unwrap();
    let names: Vec<&str> = path.iter().map(|command| command.get_name()).collect();
    let about = command.get_long_about().or(command.get_about());
    let about = text(&about.unwrap().to_string());
    write!(page, "\n## {}\n\n{about}\n", names.join(" ")).unwrap();
    let above = above.iter().flat_map(|command| command.get_arguments());
    let above: BTreeSet<String> = above.map(|arg| row(arg, None)).collect();
    let args = command.get_arguments();
    let is_shared = |arg: &&Arg| help(arg).1.is_none() && above.contains(&row(arg, None));
    let (shared, own): (Vec<&Arg>, Vec<&Arg>) = args.partition(is_shared);
    // As in `--help`, those without a heading come first.
    let mut titles: Vec<&str> = Vec::new();
    for title in own.iter().map(|arg| heading(arg)) {
        if !titles.contains(&title) {
            titles.push(title);
        }
    }
    titles.sort_by_key(|title| !title.is_empty());
    for title in titles {
        if !title.is_empty() {
            write!(page, "\n### {title}\n").unwrap();
        }
        page.push_str("\n| flag | variable | default | unit | meaning |\n|---|---|---|---|---|\n");
        page.extend(
            own.iter()
                .filter(|arg| heading(arg) == title)
                .map(|arg| row(arg, help(arg).1)),
        );
    }
    if !shared.is_empty() {
        let flags = shared
            .iter()
            .filter_map(|arg| Some(format!("`--{}`", arg.get_long()?)));
        let flags: Vec<String> = flags.collect();
        write!(
            page,
            "\nThese flags are as above, without variables: {}.\n",
            flags.join(", ")
        )
        .unwrap();
    }
    for subcommand in command.get_subcommands() {
        document(&[path, &[subcommand]].concat(), page);
    }
}

fn heading(arg: &Arg) -> &str {
    arg.get_help_heading().unwrap_or_default()
}

fn row(arg: &Arg, variable: Option<String>) -> String {
    let (help, _) = help(arg);
    let value = || arg.get_value_names().unwrap_or_default().join(" ");
    let (flag, unit) = match (arg.get_long(), arg.get_action().takes_values()) {
        (Some(long), true) => (format!("`--{long}`"), value()),
        (Some(long), false) => (format!("`--{long}`"), "switch".to_owned()),
        (None, _) => (format!("`{}`", value()), String::new()),
    };
    let short = arg.get_short().map(|short| format!(", `-{short}`"));
    let defaults: Vec<_> = arg.get_default_values().iter().collect();
    let default = match defaults.as_slice() {
        [] if arg.is_required_set() => "required".to_owned(),
        [] => String::new(),
        values => {
            let values = values.iter().map(|value| value.to_str().unwrap());
            format!("`{}`", values.collect::<Vec<_>>().join(","))
        }
    };
    let values: String = arg
        .get_possible_values()
        .iter()
        .filter_map(|value| Some(format!(" `{}`: {}.", value.get_name(), value.get_help()?)))
        .collect();
    let variable = variable.map(|it| format!("`{it}`")).unwrap_or_default();
    let cells = [
        flag.replace('|', "\\|") + &short.unwrap_or_default(),
        variable,
        default,
        unit.replace('|', "\\|"),
        text(&help) + &values,
    ];
    format!("| {} |\n", cells.join(" | "))
}

/// The long help of a flag without the note about its variable, and the variable.
fn help(arg: &Arg) -> (String, Option<String>) {
    let help = arg.get_long_help().or(arg.get_help()).unwrap().to_string();
    match help.rsplit_once(" [env: ") {
        Some((help, variable)) => (
            help.to_owned(),
            Some(variable.trim_end_matches(']').to_owned()),
        ),
        None => (help, None),
    }
}

/// Paragraphs in one line, which ends in a full stop.
fn text(help: &str) -> String {
    let line = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let end = if line.ends_with('.') { "" } else { "." };
    line.replace('|', "\\|") + end
}
