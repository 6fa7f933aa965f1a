//! What a person is told of a fault in a cluster, by `egress check`, `list` and `explain` and by the page.

use k8s_openapi::api::{
    core::v1::{ConfigMap, Pod},
    rbac::v1::ClusterRoleBinding,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use tests::{
    admin::Admin,
    chart::{COLLECTOR, OVN_WRITER},
    faults::{Fault, problems},
    or_skip, programs,
    wait::eventually,
};
use tokio::process::Command;

use crate::installation::{COREFILE, DNS_NAMESPACE, Installation, NAME};

/// A cluster in which nothing else is wrong.
const WELL: Fault = Fault {
    fault: "nothing",
    about: NAME,
    check: "All is well.",
    list: NAME,
    explain: "www.example.com. is there",
    page: "",
};

const TABLE: &[Fault] = &[
    Fault {
        fault: "Corefile that CoreDNS refuses",
        check: "✗ Corefile: ConfigMap kube-system/coredns: line 2: a `}` behind `errors` on its line",
        ..WELL
    },
    Fault {
        fault: "Corefile without a line",
        check: "✗ Corefile: ConfigMap kube-system/coredns has no `dnstap` line: it was never changed, or something reverted it",
        ..WELL
    },
    Fault {
        fault: "pod with other name servers",
        check: "! Name servers of pods: other name servers than the cluster's: team/bypass (8.8.8.8)",
        ..WELL
    },
    Fault {
        fault: "person without rights",
        check: "? Pods: …is forbidden: User…cannot list resource",
        list: "refuses to list the pods of namespace egress-by-name: …; try: kubectl -n egress-by-name auth can-i list pods",
        explain: "refuses to list the pods of namespace egress-by-name: …; try: kubectl -n egress-by-name auth can-i list pods",
        ..WELL
    },
    Fault {
        fault: "collector without a right",
        about: NAME,
        check: "✗ Rules and names: egress-firewalls: …is forbidden: User…cannot list resource \"egressfirewalls\"",
        list: "! problems of the collector: …; egress check names them",
        explain: "- the collector cannot read objects of kind EgressFirewall, so it does not know newer rules: …is forbidden",
        page: "egress-firewalls: …is forbidden: User…cannot list resource \"egressfirewalls\"",
    },
];

/// The output of a command of this account, or the problems of the collectors.
async fn says(it: &Installation, account: Option<&str>, command: &[&str]) -> String {
    if command == ["page"] {
        let mut shown = String::new();
        for pod in &it.collectors {
            let address = ([127, 0, 0, 1], pod.ports.ports[&9092]).into();
            match Admin::new(address).get("/status.json").await {
                Ok((200, status)) => shown += &problems(&status),
                other => shown += &format!("{other:?}\n"),
            }
        }
        return shown;
    }
    let Some(account) = account else {
        return it.egress(command).await.1;
    };
    let kubeconfig = it.folder().join(format!("{account}.kubeconfig"));
    let output = Command::new(programs::program("egress"))
        .args(command)
        .env("KUBECONFIG", kubeconfig)
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fault_in_a_cluster_is_told_with_its_cause() {
    let mut it = or_skip!(Installation::start().await);
    let client = it.server.client().await;
    let tell = async |it: &Installation, account: Option<&str>, fault: &str| {
        let fault = Fault::named(TABLE, fault);
        fault
            .is_told(async |command| says(it, account, command).await)
            .await;
    };
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), DNS_NAMESPACE);
    let (post, delete) = (PostParams::default(), DeleteParams::default());
    let set_corefile = async |corefile: &str| {
        let change = Patch::Merge(json!({ "data": { "Corefile": corefile } }));
        let changed = maps
            .patch("coredns", &PatchParams::default(), &change)
            .await;
        changed.unwrap();
    };
    eventually("all is well", async || match it.egress(&["check"]).await {
        (Some(0), _) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;

    set_corefile(".:53 {\n  errors }\n").await;
    tell(&it, None, "Corefile that CoreDNS refuses").await;
    let reverted: Vec<&str> = COREFILE
        .lines()
        .filter(|it| !it.contains("dnstap"))
        .collect();
    set_corefile(&reverted.join("\n")).await;
    tell(&it, None, "Corefile without a line").await;
    set_corefile(COREFILE).await;

    it.server.make_account("team", "default").await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "team");
    let pod = json!({ "metadata": { "name": "bypass" }, "spec": {
        "automountServiceAccountToken": false,
        "dnsPolicy": "None",
        "dnsConfig": { "nameservers": ["8.8.8.8"] },
        "containers": [{ "name": "c", "image": "i" }],
    } });
    let pod = serde_json::from_value(pod).unwrap();
    pods.create(&post, &pod).await.unwrap();
    tell(&it, None, "pod with other name servers").await;
    pods.delete("bypass", &delete).await.unwrap();

    // The account of the ovn-writer may list DNSNameResolvers alone.
    tell(&it, Some(OVN_WRITER), "person without rights").await;

    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    for binding in bindings.list(&ListParams::default()).await.unwrap() {
        let name = binding.name_any();
        if name.starts_with(COLLECTOR) {
            bindings.delete(&name, &delete).await.unwrap();
        }
    }
    // Watches that are open go on.
    for pod in &mut it.collectors {
        pod.program.restart().await;
    }
    tell(&it, None, "collector without a right").await;
}
