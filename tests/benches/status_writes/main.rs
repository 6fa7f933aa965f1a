//! The cost of a status write for a real API server. The words after `--` choose parts.
//!
//! - `methods`: by the method and the number of addresses. All methods compare versions: PUT and the merge patch contain
//!   the version, the JSON patches replace it by itself. Each write changes one address. The store uses the first.
//! - `forms` ([`forms`]): by the form of the status and the definition of the object. The exit status is 1 if a limit
//!   does not hold.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench fails loudly and prints its figures"
)]

mod forms;

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use kube::{
    Client, Resource,
    api::{PatchParams, PostParams},
    client::Body,
    core::{Request, request},
};
use proto::api::DnsNameResolver;
use serde_json::{Value, json};
use tests::kube::{ApiServer, is_built};

const SIZES: [usize; 4] = [1, 100, 1_000, 2_000];

const ROUNDS: usize = 15;

const MANAGER: &str = "bench";

#[derive(Clone, Copy)]
enum Way {
    Put,
    Merge,
    JsonWhole,
    JsonDifference,
}

const WAYS: [(Way, &str); 4] = [
    (Way::Put, "PUT"),
    (Way::Merge, "merge patch"),
    (Way::JsonWhole, "JSON patch, whole status"),
    (Way::JsonDifference, "JSON patch, one address"),
];

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    if !is_built() {
        println!("status_writes: skipped, as there is no kube-apiserver: run scripts/setup");
        return ExitCode::SUCCESS;
    }
    // Cargo adds flags of its own.
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|it| !it.starts_with('-'))
        .collect();
    let is_wanted = |part: &str| words.is_empty() || words.iter().any(|word| word == part);
    let server = ApiServer::start().await;
    if is_wanted("methods") {
        methods(&server).await;
    }
    match !is_wanted("forms") || forms::measure(&server).await {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

async fn methods(server: &ApiServer) {
    let client = server.client().await;
    println!("status_writes: a write of a status of which one address changed, of {ROUNDS} each");
    println!(
        "{:>9}  {:<25} {:>9} {:>9} {:>9} {:>12} {:>14}",
        "addresses", "way", "min ms", "median ms", "sent kB", "object kB", "managedFields"
    );
    for size in SIZES {
        for (way, name) in WAYS {
            let namespace = server.namespace().await;
            let figures = measure(&client, &namespace, way, size).await;
            println!("{size:>9}  {name:<25} {figures}");
        }
    }
}

async fn measure(client: &Client, namespace: &str, way: Way, size: usize) -> String {
    let requests = Request::new(DnsNameResolver::url_path(&(), Some(namespace)));
    let object = json!({
        "apiVersion": "network.openshift.io/v1alpha1",
        "kind": "DNSNameResolver",
        "metadata": { "name": "a" },
        "spec": { "name": "www.example.com." },
    });
    let made = requests.create(&PostParams::default(), object.to_string().into_bytes());
    let (_, mut object) = send(client, made).await;
    object["status"] = json!({ "resolvedNames": [{
        "dnsName": "www.example.com.",
        "resolvedAddresses": (0..size).map(|i| address(i, 0)).collect::<Vec<_>>(),
        "conditions": [{
            "type": "Degraded", "status": "False", "reason": "NOERROR", "message": "",
            "lastTransitionTime": "2026-01-31T12:00:00Z",
        }],
    }] });
    object = write(client, &requests, Way::Put, &object, 0).await.1;
    let (mut took, mut sent) = (Vec::new(), 0);
    for round in 0..ROUNDS {
        let at = round % size;
        object["status"]["resolvedNames"][0]["resolvedAddresses"][at] = address(at, round + 1);
        let started = Instant::now();
        let (bytes, stored) = write(client, &requests, way, &object, at).await;
        took.push(started.elapsed());
        assert_eq!(stored["status"], object["status"]);
        (sent, object) = (bytes, stored);
    }
    took.sort();
    let ms = |d: Duration| d.as_secs_f64() * 1e3;
    let kb = |value: &Value| value.to_string().len() / 1_000;
    format!(
        "{:>9.1} {:>9.1} {:>9} {:>12} {:>14}",
        ms(took[0]),
        ms(took[ROUNDS / 2]),
        sent / 1_000,
        kb(&object),
        kb(&object["metadata"]["managedFields"]),
    )
}

/// Returns the sent and the stored size.
async fn write(
    client: &Client,
    requests: &Request,
    way: Way,
    object: &Value,
    at: usize,
) -> (usize, Value) {
    let version = &object["metadata"]["resourceVersion"];
    let status = &object["status"];
    let put = PostParams {
        dry_run: false,
        field_manager: Some(MANAGER.to_owned()),
    };
    let patch = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let same_version =
        json!({ "op": "replace", "path": "/metadata/resourceVersion", "value": version });
    let request = match way {
        Way::Put => {
            let body = json!({
                "apiVersion": object["apiVersion"],
                "kind": object["kind"],
                "metadata": { "name": "a", "resourceVersion": version },
                "status": status,
            });
            requests.replace_subresource("status", "a", &put, body.to_string().into_bytes())
        }
        Way::Merge => {
            let body = json!({ "metadata": { "resourceVersion": version }, "status": status });
            let body = kube::api::Patch::Merge(body);
            requests.patch_subresource("status", "a", &patch, &body)
        }
        Way::JsonWhole => {
            let status = json!({ "op": "add", "path": "/status", "value": status });
            json_patch(requests, &patch, json!([same_version, status]))
        }
        Way::JsonDifference => {
            let path = format!("/status/resolvedNames/0/resolvedAddresses/{at}");
            let value = &status["resolvedNames"][0]["resolvedAddresses"][at];
            let change = json!({ "op": "replace", "path": path, "value": value });
            json_patch(requests, &patch, json!([same_version, change]))
        }
    };
    send(client, request).await
}

fn json_patch(
    requests: &Request,
    params: &PatchParams,
    patch: Value,
) -> Result<http::Request<Vec<u8>>, request::Error> {
    let merge = kube::api::Patch::Merge(patch);
    let mut request = requests.patch_subresource("status", "a", params, &merge)?;
    let json = http::HeaderValue::from_static("application/json-patch+json");
    request
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, json);
    Ok(request)
}

async fn send(
    client: &Client,
    request: Result<http::Request<Vec<u8>>, request::Error>,
) -> (usize, Value) {
    let request = request.expect("a request");
    let sent = request.body().len();
    let answer = client
        .send(request.map(Body::from))
        .await
        .expect("an answer");
    let status = answer.status();
    let body = answer.into_body().collect_bytes().await.expect("its body");
    assert!(status.is_success(), "{}", String::from_utf8_lossy(&body));
    (sent, serde_json::from_slice(&body).expect("JSON"))
}

fn address(i: usize, round: usize) -> Value {
    json!({
        "ip": format!("2001:db8::{round:x}:{i:x}"),
        "ttlSeconds": 30,
        "lastLookupTime": format!("2026-01-31T12:00:{round:02}Z"),
    })
}
