//! Objects in files that are not their own places.

use super::*;

fn named(name: &str) -> String {
    manifest("www.example.com.") + &format!("metadata: {{name: {name}, namespace: ns}}\n")
}

#[tokio::test]
async fn object_in_another_file_is_read_and_never_written() {
    let dir = Dir::new();
    let file = dir.dir.path().join("all.yml");
    let text = [named("a"), named("b")].join("---\n");
    fs::write(&file, &text).unwrap();
    let mut object = synced(&mut dir.watch()).await.remove(1);
    assert_eq!(object.name_any(), "b");
    object.status = Some(status(&["www.example.com."]));
    let any = Precondition::default();
    let deleted = dir.store.delete::<DnsNameResolver>(&key("b"), &any).await;
    for error in [
        dir.get("b").await.unwrap_err(),
        dir.store.replace_status(&object).await.unwrap_err(),
        dir.store.replace(&object).await.unwrap_err(),
        deleted.unwrap_err(),
    ] {
        assert!(matches!(error, StoreError::NotFound(_)), "{error}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
}

#[tokio::test]
async fn own_file_with_more_than_its_object_is_never_written() {
    let dir = Dir::new();
    let item: String = named("a")
        .lines()
        .map(|line| format!("  {line}\n"))
        .collect();
    let list = format!(
        "apiVersion: v1\nkind: List\nitems:\n- {}",
        item.trim_start()
    );
    for text in [named("a") + "---\n" + &named("a"), list] {
        dir.write("a", &text);
        let mut object = dir.get("a").await.unwrap();
        object.status = Some(status(&["www.example.com."]));
        let error = dir.store.replace_status(&object).await.unwrap_err();
        assert!(matches!(error, StoreError::Invalid { .. }), "{error}");
        assert_eq!(fs::read_to_string(dir.file("a")).unwrap(), text);
    }
}
