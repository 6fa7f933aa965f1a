//! Lists of servers, and a resolv.conf that changes.

use std::fs;

use tokio::time::timeout;

use super::*;

fn server(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

#[test]
fn name_servers_are_read_and_malformed_lines_are_named() {
    let text = "\
        # nameserver 192.0.2.1\n\
        ; nameserver 192.0.2.2\n\
        search example.com\n\
        nameserver 10.96.0.10\n\
        nameserver\t 2001:db8::53 # ours\n\
        nameserver fe80::1%3\n\
        nameserver 10.96.0.10\n\
        nameserver dns.example.com\n\
        nameserver\n\
        nameserver 0.0.0.0\n\
        nameservers 192.0.2.3\n\
        options ndots:5 timeout:1";
    let (servers, malformed) = parse(text);
    let expected = ["10.96.0.10:53", "[2001:db8::53]:53", "[fe80::1%3]:53"];
    assert_eq!(servers, expected.map(server));
    let lines: Vec<_> = malformed.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [8, 9, 10]);
    assert_eq!(malformed[0].1, "`dns.example.com` is not an IP address");
}

async fn expect(servers: &mut watch::Receiver<Servers>, addresses: &[&str]) {
    let expected: Vec<_> = addresses.iter().map(|text| server(text)).collect();
    timeout(
        Duration::from_secs(20),
        servers.wait_for(|servers| **servers == *expected),
    )
    .await
    .unwrap()
    .unwrap();
}

#[tokio::test]
async fn file_is_read_again_when_it_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("resolv.conf");
    let (sender, mut servers) = watch::channel(Servers::default());
    let shutdown = CancellationToken::new();
    let source = ResolvConf {
        path: path.clone(),
        interval: Duration::from_millis(1),
        ..ResolvConf::of_host()
    };
    let task = tokio::spawn(source.run(sender, shutdown.clone()));
    // Replaced by rename, as editors and kubelets do.
    let replace = |text: &str| {
        let new = folder.path().join("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, &path).unwrap();
    };
    replace("nameserver 10.0.0.1\n");
    expect(&mut servers, &["10.0.0.1:53"]).await;
    fs::remove_file(&path).unwrap();
    replace("nameserver 10.0.0.3\n");
    expect(&mut servers, &["10.0.0.3:53"]).await;
    shutdown.cancel();
    task.await.unwrap().unwrap();
}

#[tokio::test]
async fn file_that_goes_or_is_emptied_leaves_the_servers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("resolv.conf");
    let (sender, servers) = watch::channel(Servers::default());
    let mut file = ResolvConf {
        path: path.clone(),
        ..ResolvConf::of_host()
    };
    file.read(&sender).await;
    assert_eq!(**servers.borrow(), []);
    fs::write(&path, "nameserver 10.0.0.1\n").unwrap();
    file.read(&sender).await;
    let known = [server("10.0.0.1:53")];
    assert_eq!(**servers.borrow(), known);
    for bad in ["", "nameserver x\n", "search example.com\n"] {
        fs::write(&path, bad).unwrap();
        file.read(&sender).await;
        assert_eq!(**servers.borrow(), known, "{bad:?}");
    }
    fs::remove_file(&path).unwrap();
    file.read(&sender).await;
    assert_eq!(**servers.borrow(), known);
}

#[test]
fn resolver_is_a_word_or_a_list_of_servers() {
    let spec = |text: &str| text.parse::<ResolverSpec>().unwrap();
    assert_eq!(spec("kube"), ResolverSpec::Kube);
    assert_eq!(spec("resolv.conf"), ResolverSpec::ResolvConf);
    assert_eq!(spec("none"), ResolverSpec::None);
    for (text, expected) in [
        ("10.0.0.10", &["10.0.0.10:53"][..]),
        (
            "10.0.0.10:5353, [fd00::1],[fd00::1]:53,10.0.0.10:5353",
            &["10.0.0.10:5353", "[fd00::1]:53"],
        ),
        ("[fe80::1%2]", &["[fe80::1%2]:53"]),
    ] {
        let servers = expected.iter().map(|it| it.parse().unwrap()).collect();
        assert_eq!(spec(text), ResolverSpec::Servers(servers));
    }
}
