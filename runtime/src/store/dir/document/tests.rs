use proptest::prelude::*;

use super::*;

#[test]
fn bomb_is_at_fault() {
    let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for i in 1..12 {
        let before = vec![format!("*a{}", i - 1); 10].join(", ");
        laughs += &format!("a{i}: &a{i} [{before}]\n");
    }
    for bomb in [laughs, "[".repeat(100_000), "{a: ".repeat(100_000)] {
        assert!(documents(&bomb)[0].parse().is_err());
    }
}

fn any_document() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[-\\[\\]{}:,#&*!|>'\"%@`~?=<. \\n\\t0-9a-eE+_xyn]{0,12}".prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[^\\x00]{0,8}", inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn object_that_is_written_is_read_back(part in any_document()) {
        let text = serde_saphyr::to_string(&serde_json::json!({ "part": part })).unwrap();
        let documents = documents(&text);
        prop_assert_eq!(documents.len(), 1, "{}", text);
        let read = documents[0].parse().map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
        prop_assert_eq!(&read["part"], &part, "{}", text);
    }
}
