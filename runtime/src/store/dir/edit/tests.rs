use serde_json::json;

use super::*;
use crate::store::contract::{resolver, status};

#[test]
fn status_write_keeps_what_the_type_does_not_know() {
    let stored = json!({
        "metadata": {"name": "a", "annotations": {"x": "y"}, "custom": 1},
        "extra": [1, 2],
        "spec": {"name": "www.example.com.", "future": true},
    });
    let mut object = resolver("ns", "a");
    object.status = Some(status(&["other.example.com."]));
    let document = with_status(stored.clone(), &object).unwrap();
    let names = &document["status"]["resolvedNames"];
    assert_eq!(names[0]["dnsName"], "other.example.com.");
    object.status = None;
    assert_eq!(with_status(document, &object).unwrap(), stored);
}
