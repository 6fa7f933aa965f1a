//! Events for the authors of rules and the readers of objects.

use std::fs;

use k8s_openapi::api::events::v1::Event;
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, PostParams},
};
use proto::api::EgressFirewall;
use serde_json::json;
use tests::{
    chart::COLLECTOR, kube::ApiServer, programs::Program, wait::eventually, workdir::Workdir,
};

const NAMESPACE: &str = "ovn-kubernetes";

async fn put(
    client: Client,
    namespace: &str,
    annotation: &str,
    rules: serde_json::Value,
) -> String {
    let api: Api<EgressFirewall> = Api::namespaced(client, namespace);
    let firewall: EgressFirewall = serde_json::from_value(json!({
        "apiVersion": "k8s.ovn.org/v1",
        "kind": "EgressFirewall",
        "metadata": {
            "name": "default",
            "annotations": { "dnsnameresolver.network.openshift.io/grace": annotation },
        },
        "spec": { "egress": rules },
    }))
    .unwrap();
    let made = api.create(&PostParams::default(), &firewall).await.unwrap();
    made.uid().unwrap()
}

fn rule(rule_type: &str, name: &str) -> serde_json::Value {
    json!({ "type": rule_type, "to": { "dnsName": name } })
}

/// Reason, note and uid of the object of every Event in a namespace; waits for `least` of them.
async fn events(client: &Client, namespace: &str, least: usize) -> Vec<(String, String, String)> {
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    eventually(&format!("{least} Events in {namespace}"), async || {
        let found = api.list(&ListParams::default()).await;
        let found = found.map_err(|error| error.to_string())?.items;
        let mut all: Vec<_> = found
            .into_iter()
            .map(|event| {
                assert_eq!(event.type_.as_deref(), Some("Warning"));
                assert_eq!(event.reporting_controller.as_deref(), Some("collector"));
                let uid = event.regarding.and_then(|about| about.uid);
                (event.reason.unwrap(), event.note.unwrap(), uid.unwrap())
            })
            .collect();
        all.sort();
        let enough = all.len() >= least;
        enough.then_some(all.clone()).ok_or(format!("{all:?}"))
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_of_rules_and_left_out_names_are_events_on_the_objects() {
    let server = ApiServer::start().await;
    let client = server.client().await;
    server.make_namespace(NAMESPACE).await;
    server.grant(NAMESPACE, &[]).await;
    server.config_of(NAMESPACE, COLLECTOR).await;
    let (first, second) = (server.namespace().await, server.namespace().await);
    let rules = [
        rule("Allow", "localhost"),
        rule("Allow", "-x.example.com"),
        rule("Deny", "www.example.com"),
        rule("Allow", "www.example.com"),
    ];
    let uid = put(client.clone(), &first, "soon", json!(rules)).await;
    // Over the limit of rules, and the only one that fits into an object of the API server.
    let mut rules = vec![rule("Allow", "www.example.com")];
    rules.resize(
        8_100,
        json!({ "type": "Allow", "to": { "cidrSelector": "10.0.0.0/8" } }),
    );
    let other = put(client.clone(), &second, "1s", json!(rules)).await;

    let workdir = Workdir::new();
    let kubeconfig = server.folder().join(format!("{COLLECTOR}.kubeconfig"));
    let socket = format!("unix://{}", workdir.join("dnstap.sock").display());
    let args = [
        "--store",
        "kube",
        "--listen",
        &socket,
        "--manage-objects",
        "never",
    ];
    let collector = Program::start_with(
        workdir.path(),
        "collector",
        args.map(str::to_owned).to_vec(),
        vec![("KUBECONFIG", kubeconfig.display().to_string())],
    )
    .await;
    collector.ready().await;

    let said = events(&client, &first, 4).await;
    let expected = [
        ("AllowedAndDenied", "www.example.com."),
        ("AnnotationIgnored", "grace: \"soon\""),
        ("DenyRuleByName", "www.example.com."),
        ("NameRefused", "\"localhost\" (the name has a single label"),
    ];
    assert_eq!(said.len(), expected.len(), "{said:?}");
    for ((reason, note, about), (wanted, part)) in said.iter().zip(expected) {
        assert_eq!((reason.as_str(), about), (wanted, &uid));
        assert!(note.contains(part), "{part:?} is missing in {note:?}");
    }
    let said = events(&client, &second, 1).await;
    let over = "100 rules are over the limit of 8,000 and are ignored";
    let expected = ("TooManyRules".to_owned(), over.to_owned(), other);
    assert_eq!(said, [expected]);

    // The log has all of it, too, once.
    let log = collector.messages();
    for reason in ["NameRefused", "TooManyRules"] {
        let lines = log.iter().filter(|line| line["reason"] == reason);
        assert_eq!(lines.count(), 1, "{reason}");
    }
    let log_size = fs::metadata(workdir.join("collector.log")).unwrap().len();
    assert!(log_size < 200_000, "{log_size} bytes of log");
    let api: Api<EgressFirewall> = Api::namespaced(client.clone(), &second);
    let mut again = api.get("default").await.unwrap();
    again.spec.egress.pop();
    api.replace("default", &PostParams::default(), &again)
        .await
        .unwrap();
    eventually("the Event has the new note", async || {
        let said = events(&client, &second, 1).await;
        let is_new = said.len() == 1 && said[0].1.starts_with("99 rules are over the limit");
        is_new.then_some(()).ok_or_else(|| format!("{said:?}"))
    })
    .await;
}
