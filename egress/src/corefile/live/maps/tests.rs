use super::*;

const AKS: &str = ".:53 {\n    errors\n    forward . /etc/resolv.conf\n    reload\n    import custom/*.override\n}\nimport custom/*.server\n";

fn scope() -> Scope {
    Scope {
        cluster_domains: vec!["cluster.local".to_owned()],
    }
}

fn line(host: u8) -> Line {
    Line {
        endpoint: format!("tcp://192.0.2.{host}:6000"),
        extra: None,
    }
}

fn maps(corefile: &str, custom: &[(&str, &str)]) -> Maps {
    let custom = custom
        .iter()
        .map(|(key, it)| ((*key).to_owned(), (*it).to_owned()));
    Maps {
        main: [(KEY.to_owned(), corefile.to_owned())].into(),
        custom: custom.collect(),
    }
}

#[test]
fn a_line_in_another_key_is_enough() {
    let before = maps(
        AKS,
        &[("dnstap.override", "dnstap tcp://192.0.2.1:6000 full\n")],
    );
    let with = before
        .patched(&[line(1), line(2)], &scope(), false)
        .unwrap();
    let key = "egress-by-name.override";
    assert_eq!(with.custom[key], "dnstap tcp://192.0.2.2:6000 full\n");
}

#[test]
fn the_removal_of_one_line_keeps_the_other() {
    let secret = |line: Line| Line {
        extra: Some("s".to_owned()),
        ..line
    };
    let lines = [secret(line(1)), secret(line(2))];
    let before = maps(AKS, &[]);
    let with = before.patched(&lines, &scope(), false).unwrap();
    let without = with.patched(&[line(1)], &scope(), true).unwrap();
    let expected = "dnstap tcp://192.0.2.2:6000 full {\n    extra s\n}\n";
    assert_eq!(without.custom["egress-by-name.override"], expected);
    assert_eq!(without.patched(&[line(2)], &scope(), true).unwrap(), before);
}

#[test]
fn forwarders_come_into_the_corefile_and_custom_servers() {
    let server = "corp.example {\n    forward . /etc/resolv.conf\n}\n";
    let before = maps(AKS, &[("corp.server", server), ("log.override", "log\n")]);
    let forwarders: [SocketAddr; 1] = ["10.96.0.53:5300".parse().unwrap()];
    let (with, left) = before.with_hold(Some(&forwarders), &scope()).unwrap();
    assert_eq!(left, []);
    for text in [with.corefile(), &with.custom["corp.server"]] {
        assert!(
            text.contains("forward . 10.96.0.53:5300 /etc/resolv.conf {\n"),
            "{text}"
        );
    }
    assert_eq!(with.custom["log.override"], "log\n");
    assert_eq!(with.with_hold(None, &scope()).unwrap().0, before);
}
