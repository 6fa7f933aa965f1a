use super::*;

fn read(text: &str) -> Result<Corefile, SyntaxError> {
    parse(text, &Imports::Unknown)
}

fn names(block: &Block) -> Vec<&str> {
    block.directives.iter().map(|it| it.name.as_str()).collect()
}

#[test]
fn a_block_of_an_imported_file_has_the_line_of_its_import() {
    let files = [
        ("a.server", "corp.example {\n\n log\n import common\n}\n"),
        ("common", "errors\nhealth\n"),
        ("custom/b.override", "cache\n"),
    ];
    let files = files.map(|(name, text)| (name.to_owned(), text.to_owned()));
    let imports = Imports::Files(files.into());
    let text = "\nimport ./*.server\n. {\n import /etc/coredns/custom/*.override\n import none/*\n whoami\n}\n";
    let corefile = parse(text, &imports).unwrap();
    let [corp, root] = corefile.blocks.as_slice() else {
        panic!("{corefile:?}");
    };
    assert_eq!((corp.line, corp.body), (2, None));
    assert_eq!(corp.import.as_deref(), Some("./*.server"));
    assert_eq!(names(corp), ["log", "errors", "health"]);
    assert_eq!(names(root), ["cache", "whoami"]);
    assert_eq!(root.directives[0].line, 4);
    assert_eq!(root.unknown, [(5, "none/*".to_owned())]);
}

#[test]
fn problem_in_an_imported_file_has_its_name() {
    let files = [("custom/b.server".to_owned(), "x {\n  log }\n".to_owned())];
    let imports = Imports::Files(files.into());
    let error = parse("\nimport custom/*.server\n", &imports).unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 2: a `}` behind `log` on its line (in /etc/coredns/custom/b.server)"
    );
}

#[test]
fn malformed_corefile_is_an_error_with_its_line() {
    for (text, line, words) in [
        (". {\n  errors\n", 1, "has no `}`"),
        (". {\n  errors }\n", 2, "behind `errors`"),
        (". {\n  kubernetes x {\n", 2, "`kubernetes`"),
        (". {\n  log\n}}\n", 3, "`}}` instead"),
        ("a,\n{\n}\n", 1, "key"),
        ("a ,\nb {\n}\n", 1, "empty"),
        (".:53{\n log\n}\n", 1, "space"),
        ("a: {\n log\n}\n", 1, "port, is empty"),
        ("(a) {\n}\n(a) {\n}\n", 3, "second snippet"),
        ("(a)\n log\n", 1, "no `{`"),
        ("(a) {\n log\n", 1, "no `}`"),
        ("(a) {\n import a\n}\n. {\n import a\n}\n", 2, "10000"),
        (
            "(a) {\n import b\n}\n(b) {\n import a\n}\n. {\n import a\n}\n",
            5,
            "10000",
        ),
        (". {\n import\n}\n", 2, "no argument"),
        (". {\n import a b\n}\n", 2, "behind the argument"),
        (". {\n import */*\n}\n", 2, "one wildcard"),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.problem.contains(words), "{text}: {error}");
        assert_eq!(error.line, line, "{text}: {error}");
    }
}
