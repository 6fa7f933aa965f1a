use runtime::{kube_events::Report, store::ObjectKey};
use serde_json::{Value, json};
use tokio::sync::mpsc::Receiver;

use super::{
    super::annotations::tests::{RULES, namespace},
    *,
};

const MAX_ADDRESSES: &str = "dnsnameresolver.network.openshift.io/max-addresses";

struct Cluster {
    task: Task,
    reports: Receiver<Report>,
}

impl Cluster {
    fn new() -> Self {
        let (reporter, reports) = Reporter::with_queue(2);
        let outputs = Outputs {
            quotas: NamespaceQuotas::unread(),
            clients: Clients::default(),
            reporter,
        };
        let task = Task {
            rules: RULES,
            outputs,
            known: BTreeMap::new(),
            is_unreadable: false,
            unread_until: None,
        };
        Self { task, reports }
    }

    fn apply(&mut self, name: &str, annotations: Value) {
        let namespace = namespace(name, annotations);
        self.task.take(Event::Applied(namespace));
    }

    fn addresses(&self, name: &str) -> Option<usize> {
        let Outputs {
            quotas, clients, ..
        } = &self.task.outputs;
        Some(quotas.get(clients.number(name))?.addresses)
    }

    /// The reasons of the reports, with their Namespaces.
    fn told(&mut self) -> Vec<(String, &'static str)> {
        let reports = std::iter::from_fn(|| self.reports.try_recv().ok());
        let told = reports.map(|it| (it.about.name.unwrap_or_default(), it.reason));
        told.collect()
    }
}

fn many(text: &str) -> Value {
    json!({ MAX_ADDRESSES: text })
}

#[tokio::test]
async fn a_namespace_has_the_limits_of_its_annotations_until_it_is_deleted() {
    let mut cluster = Cluster::new();
    assert!(!cluster.task.outputs.quotas.are_known());
    let all = vec![namespace("a", many("7")), namespace("b", Value::Null)];
    cluster.task.take(Event::Synced(all));
    assert!(cluster.task.outputs.quotas.are_known());
    assert_eq!(
        (cluster.addresses("a"), cluster.addresses("b")),
        (Some(7), None)
    );
    cluster.apply("a", many("8"));
    cluster.apply("b", many("9"));
    assert_eq!(
        (cluster.addresses("a"), cluster.addresses("b")),
        (Some(8), Some(9))
    );
    cluster.apply("a", Value::Null);
    let key = ObjectKey {
        namespace: String::new(),
        name: "b".to_owned(),
    };
    cluster.task.take(Event::Deleted(key));
    assert_eq!(
        (cluster.addresses("a"), cluster.addresses("b")),
        (None, None)
    );
    // A namespace that a new list lacks was deleted meanwhile.
    cluster.apply("a", many("8"));
    cluster.task.take(Event::Synced(Vec::new()));
    assert_eq!(cluster.addresses("a"), None);
    assert_eq!(cluster.told(), []);
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_read_namespaces_the_flags_hold_after_a_while() {
    let mut cluster = Cluster::new();
    let forbidden = || Event::OutOfSync("it is forbidden".to_owned());
    for _ in 0..4 {
        cluster.task.take(forbidden());
        assert!(!cluster.task.outputs.quotas.are_known());
        tokio::time::advance(UNREAD_TIMEOUT / 4).await;
    }
    cluster.task.end_wait();
    assert!(cluster.task.outputs.quotas.are_known());
    assert_eq!(cluster.addresses("a"), None);
    // The annotations that were read once apply.
    let all = vec![namespace("a", many("7"))];
    cluster.task.take(Event::Synced(all));
    cluster.task.take(forbidden());
    assert_eq!(cluster.addresses("a"), Some(7));
}
