use super::*;

const FORWARDERS: [&str; 2] = ["10.96.0.53:5300", "[fd00::53]:5300"];

fn forwarders_of_test() -> Vec<SocketAddr> {
    FORWARDERS.map(|it| it.parse().unwrap()).to_vec()
}

fn scope() -> Scope {
    Scope::new(&["cluster.local".to_owned()])
}

fn added(text: &str) -> (String, Vec<String>) {
    let (with, left) = add(text, &forwarders_of_test(), &scope(), &Imports::Unknown).unwrap();
    let (twice, _) = add(&with, &forwarders_of_test(), &scope(), &Imports::Unknown).unwrap();
    assert_eq!(with, twice, "a second time changes nothing");
    assert_eq!(remove(&with, &Imports::Unknown).unwrap(), text);
    (with, left.iter().map(ToString::to_string).collect())
}

#[test]
fn block_asks_the_forwarders_first_and_comes_back() {
    let text = ".:53 {\n    errors\n    forward . /etc/resolv.conf # node\n    cache 30\n}\n";
    let (with, left) = added(text);
    let expected = ".:53 {\n    errors\n    forward . 10.96.0.53:5300 [fd00::53]:5300 /etc/resolv.conf {\n        policy sequential\n        max_fails 1\n        health_check 0.5s # egress: hold, with its block\n    } # node\n    cache 30\n}\n";
    assert_eq!(with, expected);
    assert_eq!(left, [""; 0]);
}

#[test]
fn options_of_the_block_stay() {
    for text in [
        ".:53 {\n    forward . /etc/resolv.conf {\n       max_concurrent 1000\n    }\n}\n",
        ".:53 {\r\n\tforward . \"/etc/resolv.conf\" { # kubeadm\r\n\t}\r\n}\r\n",
        ". {\n  forward . /etc/resolv.conf\n}\nx.example {\n  forward x.example /etc/resolv.conf\n}\n",
        "x.example\nforward . /etc/resolv.conf",
    ] {
        let (with, left) = added(text);
        assert!(
            with.contains("10.96.0.53:5300 [fd00::53]:5300 ") && left.is_empty(),
            "{with}"
        );
    }
}

#[test]
fn block_that_cannot_be_held_is_named_and_stays() {
    for (forward, why) in [
        ("forward . tls://9.9.9.9", "is not /etc/resolv.conf"),
        ("forward . 192.0.2.1", "is not /etc/resolv.conf"),
        ("forward . 192.0.2.1 192.0.2.2", "several upstreams"),
        (
            "forward . /etc/resolv.conf {\n policy random\n }",
            "of its own",
        ),
        (
            "forward . 192.0.2.1\n forward x. 192.0.2.2",
            "several `forward` lines",
        ),
        ("whoami", "no `forward` line"),
    ] {
        let text = format!(".:53 {{\n {forward}\n}}\ncluster.local {{\n whoami\n}}\n");
        let (with, left) = added(&text);
        assert_eq!(with, text);
        assert!(left.len() == 1 && left[0].contains(why), "{left:?}");
    }
}

#[test]
fn other_forwarders_replace_those_of_before() {
    let text = ". {\n  forward . /etc/resolv.conf\n}\n";
    let (with, _) = added(text);
    let other: [SocketAddr; 1] = ["10.96.0.54:5300".parse().unwrap()];
    let (replaced, _) = add(&with, &other, &scope(), &Imports::Unknown).unwrap();
    assert!(
        replaced.contains("forward . 10.96.0.54:5300 /etc/resolv.conf {"),
        "{replaced}"
    );
    assert_eq!(remove(&replaced, &Imports::Unknown).unwrap(), text);
}

#[test]
fn corefiles_of_platforms_come_back_to_the_byte() {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../tests/tests/programs/corefile/field"
    );
    let mut changed = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        changed += usize::from(added(&text).0 != text);
    }
    assert!(changed > 10, "{changed}");
}
