use runtime::args::try_parse_from;

use super::*;
use crate::corefile::args::CorefileAction;

fn parsed(args: &[&str], variables: &[(&str, &str)]) -> Result<Action, String> {
    let args = [&["egress"], args].concat();
    let parsed = try_parse_from::<Cli, _>(PREFIX, "", args, |name| {
        let found = variables.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| value.into())
    });
    parsed
        .map(|cli| cli.action)
        .map_err(|error| format!("{}: {error}", error.exit_code()))
}

#[test]
fn the_programs_to_ask_come_from_flags_or_else_from_variables() {
    let args = ["explain", "www.example.com", "--collector=unix:///run/x"];
    let variables = [
        ("EGRESS_COLLECTOR", "unix:///run/y"),
        ("EGRESS_OVN_WRITER", "unix:///run/a,unix:///run/b"),
        ("EGRESS_RELEASE_NAMESPACE", "dns"),
    ];
    for (args, collector) in [(&args[..], "unix:///run/x"), (&args[..2], "unix:///run/y")] {
        let Action::Explain(args) = parsed(args, &variables).unwrap() else {
            panic!("{args:?}");
        };
        assert_eq!(args.targets.collector[0].to_string(), collector);
        assert_eq!(args.targets.ovn_writer.len(), 2);
        assert_eq!(args.targets.cluster.release_namespace, "dns");
        assert_eq!(args.about, "www.example.com");
    }
}

#[test]
fn a_leftover_variable_does_not_turn_a_patch_into_a_removal() {
    let args = ["corefile", "patch", "--dnstap=/run/x.sock"];
    let variables = [
        ("EGRESS_EXTRA", "the-secret-of-events"),
        ("EGRESS_REMOVE", "true"),
    ];
    let Action::Corefile(args) = parsed(&args, &variables).unwrap() else {
        panic!("no corefile");
    };
    let CorefileAction::Patch(args) = args.action else {
        panic!("{args:?}");
    };
    assert!(!args.remove);
    let lines = args.input.line.lines();
    assert_eq!(lines[0].extra.as_deref(), Some("the-secret-of-events"));
}
