use super::*;
use crate::corefile::Finding;

fn findings(text: &str, lines: &[Line]) -> Vec<Finding> {
    crate::corefile::findings(&parse(text, &Imports::Unknown).unwrap(), lines, &scope())
}

const STOCK: &str = "# the cluster's DNS
.:53 { # all names
    errors
    health {
       lameduck 5s
    }
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
    }
    forward . /etc/resolv.conf
    cache 30
}
cluster.local:53, 10.in-addr.arpa:53 {
\terrors
}
corp.example:53 tls://corp.example:853 {
\tforward . 192.0.2.53\t# theirs
}
hostname.bind:5353 {
    chaos
}
";

fn scope() -> Scope {
    Scope {
        cluster_domains: vec!["cluster.local".to_owned()],
    }
}

fn line(extra: Option<&str>) -> Line {
    Line {
        endpoint: "tcp://192.0.2.1:6000".to_owned(),
        extra: extra.map(str::to_owned),
    }
}

fn added(text: &str, line: &Line) -> String {
    let once = add(text, line, &scope(), &Imports::Unknown).unwrap();
    let twice = add(&once, line, &scope(), &Imports::Unknown).unwrap();
    assert_eq!(once, twice, "a second time changes nothing");
    let faults = findings(&once, std::slice::from_ref(line));
    let faults: Vec<_> = faults.iter().filter(|it| it.is_fault).collect();
    assert!(faults.is_empty(), "{faults:?} in\n{once}");
    once
}

#[test]
fn patch_adds_the_line_to_each_block_of_external_names_and_nothing_else() {
    let expected = STOCK
        .replace(
            "{ # all names\n",
            "{ # all names\n    dnstap tcp://192.0.2.1:6000 full\n",
        )
        .replace("853 {\n", "853 {\n\tdnstap tcp://192.0.2.1:6000 full\n");
    let with = added(STOCK, &line(None));
    assert_eq!(with, expected);
    assert_eq!(
        remove(&with, Some(&line(None)), &Imports::Unknown).unwrap(),
        STOCK
    );
    assert_eq!(remove(&with, None, &Imports::Unknown).unwrap(), STOCK);
}

#[test]
fn the_secret_comes_in_is_changed_and_is_taken_out_with_the_line() {
    let with = added(STOCK, &line(Some("one")));
    let block = "{ # all names\n    dnstap tcp://192.0.2.1:6000 full {\n        extra one\n    }\n";
    assert!(with.contains(block), "{with}");
    let other = added(&with, &line(Some("two")));
    assert_eq!(other, with.replace("extra one", "extra two"));
    assert_eq!(remove(&other, None, &Imports::Unknown).unwrap(), STOCK);
    let plain = added(STOCK, &line(None));
    assert_eq!(added(&plain, &line(Some("one"))), with);
}

#[test]
fn a_line_that_is_there_gets_what_it_lacks_and_keeps_the_rest() {
    for (before, after) in [
        (
            "dnstap tcp://192.0.2.1:6000",
            "dnstap tcp://192.0.2.1:6000 full {\n  extra x\n }",
        ),
        (
            "dnstap tcp://192.0.2.1:6000 no 4 2 # x",
            "dnstap tcp://192.0.2.1:6000 full 4 2 {\n  extra x\n } # x",
        ),
        (
            "dnstap \"tcp://192.0.2.1:6000\" full {\n  identity me\n }",
            "dnstap \"tcp://192.0.2.1:6000\" full {\n  identity me\n extra x\n }",
        ),
    ] {
        let file = |line: &str| format!(". {{\n {line}\n forward . 1.1.1.1\n}}\n");
        let with = added(&file(before), &line(Some("x")));
        let words = |text: &str| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(words(&with), words(&file(after)));
    }
}

#[test]
fn a_line_in_a_snippet_or_to_another_reader_is_understood() {
    let text = "(tap) {\n  dnstap tcp://192.0.2.1:6000\n}\n. {\n  import tap\n}\nx.example {\n  dnstap /run/other.sock full\n}\n";
    let with = added(text, &line(None));
    let expected = text
        .replace("192.0.2.1:6000\n", "192.0.2.1:6000 full\n")
        .replace(
            "x.example {\n",
            "x.example {\n  dnstap tcp://192.0.2.1:6000 full\n",
        );
    assert_eq!(with, expected);
}

#[test]
fn line_that_hides_names_or_cannot_be_read_is_reported() {
    let text = ". {\n  autopath @kubernetes\n  rewrite name a b\n  cache {\n    serve_stale\n  }\n  import custom/*.override\n  dnstap listen tcp://192.0.2.1:6000 full\n}\n";
    let found = findings(text, &[]);
    let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
    for (line, word) in [
        (1, "error"),
        (2, "autopath"),
        (3, "rewrite"),
        (4, "serve_stale"),
        (7, "custom/*.override"),
        (8, "listen"),
    ] {
        let start = format!("line {line}: ");
        assert!(
            shown
                .iter()
                .any(|it| it.starts_with(&start) && it.contains(word)),
            "{line}: {shown:?}"
        );
    }
}

#[test]
fn imported_files_are_read_where_they_are() {
    let files = [(
        "a.override".to_owned(),
        "dnstap /run/x.sock full\n".to_owned(),
    )];
    let imports = Imports::Files(files.into());
    let text = ". {\n  import *.override\n}\n";
    assert_eq!(
        crate::corefile::findings(&parse(text, &imports).unwrap(), &[], &scope()),
        []
    );
    let line = Line {
        endpoint: "unix:///run/x.sock".to_owned(),
        extra: None,
    };
    assert_eq!(add(text, &line, &scope(), &imports).unwrap(), text);
}

#[test]
fn each_collector_needs_a_line_of_its_own() {
    let other = Line {
        endpoint: "tcp://192.0.2.2:6000".to_owned(),
        extra: None,
    };
    let with = added(". {\n    forward . 192.0.2.1\n}\n", &line(None));
    let found = findings(&with, &[line(None), other]);
    let [finding] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert!(finding.is_fault && finding.words.contains("192.0.2.2:6000"));
}
