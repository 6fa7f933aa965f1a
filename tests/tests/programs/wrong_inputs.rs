//! What `egress` says of wrong arguments and of programs that are not there. Each message names the thing and what to try.

use std::{fs, path::Path, process::Stdio};

use tests::programs;
use tokio::process::Command;

const KUBECONFIG: &str = "
apiVersion: v1
kind: Config
current-context: kind-a
clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]
contexts: [{name: kind-a, context: {cluster: a, user: a}}]
users: [{name: a, user: {token: x}}]
";

/// The arguments, and a part of the message.
const INPUTS: &[(&str, &str)] = &[
    ("verfy", "a similar subcommand exists: 'verify'"),
    ("list --nam x", "a similar argument exists: '--name'"),
    ("list -o xml", "[possible values: text, json, yaml]"),
    (
        "explain x -n A_b",
        "a namespace is of 1 to 63 lower-case letters",
    ),
    (
        "explain x -n a -A",
        "cannot be used with '--all-namespaces'",
    ),
    (
        "list --request-timeout 5",
        "time unit needed, for example 5sec",
    ),
    (
        "check --pre --collector unix:///x",
        "'--pre' cannot be used with",
    ),
    (
        "check --corefile coredns",
        "named `NAMESPACE/NAME`, as in `kube-system/coredns`",
    ),
    (
        "list --collector unix:///x --context a",
        "cannot be used with '--context <NAME>'",
    ),
    (
        "explain x --collector https://localhost:9092",
        "starts with http://, tcp:// or unix://",
    ),
    (
        "explain x --collector http://localhost",
        "need an IP address and a port",
    ),
    (
        "explain x --collector tcp://192.0.2.1:9092",
        "on its own host only: run egress there",
    ),
    (
        "explain x --collector unix://run/x",
        "a unix socket needs an absolute path",
    ),
    (
        "explain x --collector unix:///ABSENT",
        "does it run with --inspect unix:///",
    ),
    (
        "list --collector http://localhost:1/",
        "does it run with --inspect tcp://127.0.0.1:1?",
    ),
    (
        "verify --ovn-writer unix:///ABSENT",
        "does it run with --inspect unix:///",
    ),
    (
        "verify --collector unix:///ABSENT",
        "give --ovn-writer or --policy-writer",
    ),
    (
        "watch --duration 1s --collector unix:///ABSENT",
        "no program could be reached",
    ),
    (
        "capture x --size 3furlongs",
        "invalid value '3furlongs' for '--size <SIZE>'",
    ),
    (
        "capture x --duration 2h --collector unix:///ABSENT",
        "it is 0, or over 600 s",
    ),
    (
        "capture x --collector unix:///ABSENT",
        "no answer of the collector",
    ),
    ("learn", "<--namespace <NAMESPACE>|--client <CIDR>>"),
    ("learn -n a --for 0s", "it is 0, or over 600 s"),
    ("corefile patch ABSENT", "No such file or directory"),
    (
        "list --kubeconfig ABSENT",
        "the kubeconfig cannot be used: failed to read kubeconfig",
    ),
    (
        "list --kubeconfig KUBECONFIG --context other",
        "failed to load current context: other",
    ),
    (
        "list --kubeconfig KUBECONFIG",
        "cannot reach https://127.0.0.1:1/ (context kind-a): Connection refused",
    ),
    (
        "check --kubeconfig KUBECONFIG",
        "cannot reach https://127.0.0.1:1/ (context kind-a): Connection refused",
    ),
];

async fn run(folder: &Path, args: &str) -> (Option<i32>, String) {
    let path = |name: &str| folder.join(name).display().to_string();
    let args = args
        .replace("KUBECONFIG", &path("kubeconfig"))
        .replace("/ABSENT", &path("absent"))
        .replace("ABSENT", &path("absent"));
    let output = Command::new(programs::program("egress"))
        .args(args.split(' '))
        .current_dir(folder)
        .env_remove("KUBECONFIG")
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

#[tokio::test]
async fn wrong_input_is_refused_by_name_with_what_to_try() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("kubeconfig"), KUBECONFIG).unwrap();
    for (args, part) in INPUTS {
        let (code, text) = run(folder.path(), args).await;
        assert!(text.contains(part), "egress {args}: {text}");
        assert_eq!(code, Some(2), "egress {args}: {text}");
    }
}
