use std::os::unix::fs::PermissionsExt;

use tokio::net::UnixStream;

use super::Listener;
use crate::args::ListenAddress;

#[tokio::test]
async fn a_socket_file_that_nobody_listens_on_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let listener = Listener::bind(&ListenAddress::Unix(path.clone()))
        .await
        .unwrap();
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o660
    );
    UnixStream::connect(&path).await.unwrap();
    drop(listener);
    assert!(!path.exists(), "it cleans up after itself");
}

#[tokio::test]
async fn a_socket_that_somebody_listens_on_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.sock");
    let _other = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let error = Listener::bind(&ListenAddress::Unix(path.clone()))
        .await
        .unwrap_err();
    assert!(
        format!("{error:#}").ends_with("another program listens there"),
        "{error:#}"
    );
    UnixStream::connect(&path).await.unwrap();
}

#[tokio::test]
async fn a_path_that_is_no_socket_is_never_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.sock");
    std::fs::write(&path, "precious").unwrap();
    let error = Listener::bind(&ListenAddress::Unix(path.clone()))
        .await
        .unwrap_err();
    assert!(
        format!("{error:#}").ends_with("the path exists and is no socket"),
        "{error:#}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
}

#[tokio::test]
async fn port_zero_takes_a_free_port_and_a_port_in_use_is_an_error() {
    let listener = Listener::bind(&"tcp://127.0.0.1:0".parse().unwrap())
        .await
        .unwrap();
    let error = Listener::bind(listener.address()).await.unwrap_err();
    assert!(
        format!("{error:#}").starts_with(&format!("cannot listen on {}", listener.address())),
        "{error:#}"
    );
}
