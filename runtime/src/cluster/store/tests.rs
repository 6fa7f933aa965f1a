use serde_json::json;

use super::*;

fn refusal(code: u16, reason: &str, message: &str, details: serde_json::Value) -> StoreError {
    let status = json!({
        "status": "Failure", "code": code, "reason": reason, "message": message, "details": details,
    });
    let status: Status = serde_json::from_value(status).unwrap();
    let key = ObjectKey {
        namespace: "x".to_owned(),
        name: "a".to_owned(),
    };
    refused(Error::Api(status.boxed()), &key)
}

#[test]
fn missing_object_differs_from_a_kind_that_is_not_served() {
    let of = |name: &str, kind: &str| {
        let details = json!({ "name": name, "kind": kind });
        refusal(404, "NotFound", "not found", details)
    };
    assert!(matches!(
        of("a", "dnsnameresolvers"),
        StoreError::NotFound(_)
    ));
    for (name, kind) in [("", ""), ("x", "namespaces")] {
        assert!(matches!(of(name, kind), StoreError::Unavailable { .. }));
    }
}

#[test]
fn conflict_differs_from_a_name_that_is_taken() {
    let taken = refusal(409, "AlreadyExists", "x", json!({}));
    assert!(matches!(taken, StoreError::AlreadyExists(_)));
    let changed = refusal(409, "Conflict", "x", json!({}));
    assert!(matches!(changed, StoreError::Conflict(_)));
}

#[test]
fn too_large_is_known_from_the_server_and_from_etcd() {
    for (code, message) in [
        (413, "Request entity too large: limit is 3145728"),
        (500, "etcdserver: request is too large"),
        (
            500,
            "rpc error: code = ResourceExhausted desc = trying to send message larger than max (2 vs. 1)",
        ),
    ] {
        let refused = refusal(code, "", message, json!({}));
        assert!(matches!(refused, StoreError::TooLarge { .. }), "{refused}");
    }
    let broken = refusal(500, "", "etcdserver: leader changed", json!({}));
    assert!(matches!(broken, StoreError::Unavailable { .. }));
}
