use proptest::prelude::*;

use super::*;

const TEXT: &str = "\
# rules
spec:
  egress:
  - type: Allow
    to: { dnsName: www.example.com }
  - to: {}
---
---
# nothing
--- # third
items:
- spec:
    name: x
";

#[test]
fn documents_of_a_file_are_the_parts_between_markers() {
    let of = |text: &str| {
        let parsed = documents(text).iter().map(Document::parse).collect();
        let parsed: Result<Vec<Value>, Error> = parsed;
        let parsed = parsed.unwrap().into_iter();
        let parsed = parsed.filter(|it| !it.is_null());
        parsed.map(|it| it.to_string()).collect::<Vec<_>>()
    };
    for (text, expected) in [
        ("a: 1", &["{\"a\":1}"][..]),
        ("a: 1\n---\nb: 2\n", &["{\"a\":1}", "{\"b\":2}"]),
        (
            "---\r\na: 1\r\n---\r\nb: 2\r\n",
            &["{\"a\":1}", "{\"b\":2}"],
        ),
        ("%YAML 1.2\n---\na: 1\n...\n", &["{\"a\":1}"]),
        ("a: |\n  ---\n  x\n", &["{\"a\":\"---\\nx\\n\"}"]),
        (
            "{\n\t\"a\": 1,\n\t\"b\": [\n\t\t2\n\t]\n}\n",
            &["{\"a\":1,\"b\":[2]}"],
        ),
        ("", &[]),
        ("# a comment\n---\n---\n", &[]),
    ] {
        assert_eq!(of(text), expected, "{text}");
    }
}

#[test]
fn line_of_a_part_is_that_of_its_key() {
    let documents = documents(TEXT);
    let of = |index: usize, path: &str| documents[index].line_of(path);
    assert_eq!(of(0, "spec.egress"), 3);
    assert_eq!(of(0, "spec.egress.0.to.dnsName"), 5);
    assert_eq!(of(0, "spec.egress.1.to"), 6);
    assert_eq!(of(0, "spec.egress.1"), 6);
    let last = documents.len() - 1;
    assert_eq!(of(last, "items.0.spec.name"), 13);
    // A part that is not there has the line of its document.
    assert_eq!(of(0, "spec.egress.7"), 2);
    assert_eq!(of(last, "spec"), 11);
}

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
