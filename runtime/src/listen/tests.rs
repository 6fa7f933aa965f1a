use std::os::unix::fs::MetadataExt;

use super::*;

#[test]
fn listen_addresses_are_urls() {
    for text in [
        "unix:///run/x.sock",
        "tcp://127.0.0.1:0",
        "tcp://[::1]:6000",
        "tls://[::1]:6000",
        "unix:///run/x.sock?mode=0660&gid=53",
    ] {
        assert_eq!(text.parse::<ListenAddress>().unwrap().to_string(), text);
    }
    for text in [
        "unix://x.sock",
        "tcp://localhost:6000",
        "tcp://127.0.0.1",
        "udp://127.0.0.1:1",
        "unix:///run/x.sock?mode=0888",
        "unix:///run/x.sock?mode=1777",
        "unix:///run/x.sock?mode=+660",
        "unix:///run/x.sock?gid=dns",
        "unix:///run/x.sock?gid=4294967296",
        "unix:///run/x.sock?gid",
        "unix:///run/x.sock?uid=1",
        "tls://127.0.0.1",
        "",
    ] {
        assert!(text.parse::<ListenAddress>().is_err(), "{text}");
    }
}

#[tokio::test]
async fn the_longest_path_of_a_socket_can_be_bound_and_a_longer_one_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let path = |length: usize| format!("{folder}/{}", "x".repeat(length - folder.len() - 1));
    let longest = format!("unix://{}", path(MAX_SOCKET_PATH));
    let listener = Listener::bind(&longest.parse().unwrap(), Access::User).await;
    UnixStream::connect(path(MAX_SOCKET_PATH)).await.unwrap();
    drop(listener);
    let error = format!("unix://{}", path(MAX_SOCKET_PATH + 1)).parse::<ListenAddress>();
    assert!(error.unwrap_err().to_string().contains("at most 107 bytes"));
}

#[test]
fn address_of_other_hosts_is_not_local() {
    for text in ["unix:///run/x.sock", "tcp://127.1.2.3:1", "tcp://[::1]:1"] {
        assert_eq!(parse_local(text).unwrap().to_string(), text);
    }
    for (text, why) in [
        ("tcp://0.0.0.0:1", "loopback"),
        ("tcp://[::]:1", "loopback"),
        ("tcp://10.0.0.1:1", "loopback"),
        ("x", "starts with"),
        ("tls://127.0.0.1:1", "tcp:// only"),
    ] {
        let error = parse_local(text).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[tokio::test]
async fn a_socket_file_that_nobody_listens_on_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let listener = Listener::bind(&ListenAddress::Unix(path.clone().into()), Access::Group)
        .await
        .unwrap();
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o660
    );
    UnixStream::connect(&path).await.unwrap();
    drop(listener);
}

#[tokio::test]
async fn path_of_another_program_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let [socket, file] = ["x.sock", "file"].map(|name| folder.path().join(name));
    let _other = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    std::fs::write(&file, "precious").unwrap();
    for (path, fault) in [
        (&socket, "another program listens there"),
        (&file, "the path exists and is no socket"),
    ] {
        let address = ListenAddress::Unix(path.clone().into());
        let error = Listener::bind(&address, Access::Group).await.unwrap_err();
        assert!(format!("{error:#}").ends_with(fault), "{error:#}");
    }
    UnixStream::connect(&socket).await.unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
}

#[tokio::test]
async fn unix_socket_has_the_mode_and_group_of_its_url() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.sock");
    let gid = fs::metadata(folder.path()).unwrap().gid();
    let url = format!("unix://{}?mode=0666&gid={gid}", path.display());
    let listener = Listener::bind(&url.parse().unwrap(), Access::User).await;
    let meta = fs::metadata(&path).unwrap();
    assert_eq!((meta.mode() & 0o777, meta.gid()), (0o666, gid));
    let _client = UnixStream::connect(&path).await.unwrap();
    let (_stream, peer) = listener.unwrap().accept().await.unwrap();
    let own = i32::try_from(std::process::id()).unwrap();
    assert_eq!(peer, Peer::Process(Some(own)));
}
