//! The content of files, and its changes.

use super::*;

#[tokio::test]
async fn status_write_keeps_the_rest_of_the_file_and_its_mode() {
    let dir = Dir::new();
    dir.write(
        "a",
        &(manifest("www.example.com.") + "  future: [1]\nmetadata: { custom: x }\n"),
    );
    fs::set_permissions(dir.file("a"), fs::Permissions::from_mode(0o640)).unwrap();
    let mut object = dir.get("a").await.unwrap();
    object.status = Some(status(&["www.example.com."]));
    dir.store.replace_status(&object).await.unwrap();
    let text = fs::read_to_string(dir.file("a")).unwrap();
    assert!(
        text.contains("future:\n  - 1\n") && text.contains("custom: x\n"),
        "{text}"
    );
    assert_eq!(fs::metadata(dir.file("a")).unwrap().mode() & 0o777, 0o640);
}

#[tokio::test]
async fn malformed_file_is_named_with_its_line_and_never_overwritten() {
    let dir = Dir::new();
    let large = manifest("a.") + &"#".repeat(MAX_SIZE);
    for (text, place) in [
        ("", "a.yaml: the file is empty"),
        (
            "apiVersion: network.openshift.io/v1alpha1\nkind: DNSNameResolver\nspec: [\n",
            " at line 3, ",
        ),
        (
            &(manifest("[]") + "metadata: {}\n"),
            "a.yaml: line 4: `spec.name`: ",
        ),
        (
            &(manifest("a.") + "metadata: { name: b }\n"),
            "a.yaml: line 1: `metadata` names ns/b",
        ),
        (&large, "a.yaml: larger than"),
    ] {
        dir.write("a", text);
        let mut object = resolver("ns", "a");
        object.metadata.resource_version = Some("1".to_owned());
        let errors = [
            dir.get("a").await.unwrap_err(),
            dir.store.create(&object).await.unwrap_err(),
            dir.store.replace_status(&object).await.unwrap_err(),
            dir.store
                .delete::<DnsNameResolver>(&key("a"), &Precondition::default())
                .await
                .unwrap_err(),
        ];
        for error in errors {
            assert!(matches!(error, StoreError::Invalid { .. }), "{error}");
            let error = error.to_string();
            assert!(error.contains(place), "{place}: {error}");
            assert!(error.contains(dir.file("a").to_str().unwrap()), "{error}");
        }
        assert_eq!(fs::read_to_string(dir.file("a")).unwrap(), text);
    }
}
