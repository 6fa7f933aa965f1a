//! Other clients of the same objects: they recreate objects, and have objects of their own.

use std::time::{Duration, Instant};

use kube::{ResourceExt, api::DeleteParams};
use tests::{
    kube::ApiServer,
    soak::{is_long, judge},
};

use crate::collectors::{Collector, NEVER, Objects, allow};

/// In mode `auto` no object is created earlier.
const CREATE_AFTER: Duration = Duration::from_secs(10);

mod soak {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_object_that_somebody_makes_again_has_its_addresses_at_once() {
        let server = ApiServer::shared().await;
        let namespace = server.namespace().await;
        let name = &format!("www.{namespace}.example.com.");
        allow(&server, &namespace, &[name]).await;
        let objects = Objects::of(&server, &namespace).await;
        let mut uid = objects.make("a", name).await.uid();
        let mut collector = Collector::start(&server.kubeconfig(), &namespace, &NEVER).await;
        let ips = ["10.0.0.1", "10.0.0.2", "2001:db8::1"];
        for ip in ips {
            collector.hears(name, &[ip.parse().unwrap()], 600).await;
        }
        objects.expect(name, &ips).await;
        let mut slowest = Duration::ZERO;
        // Under its own name, and under another.
        for object in ["a", "a", "a", "b", "b", "c", "a", "a"] {
            for old in objects.named(name).await.unwrap() {
                let params = DeleteParams::default();
                let deleted = objects.api.delete(&old.name_any(), &params).await;
                deleted.unwrap();
            }
            let made = objects.make(object, name).await;
            assert_eq!(made.status, None);
            assert_ne!(made.uid(), uid);
            uid = made.uid();
            slowest = slowest.max(objects.expect(name, &ips).await);
        }
        assert_eq!(objects.named(name).await.unwrap()[0].uid(), uid);
        let what = "made again 8 times, its addresses were back";
        judge(what, slowest, Duration::from_secs(2));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn in_auto_an_object_is_made_only_when_nobody_else_has_for_10_seconds() {
        let server = ApiServer::shared().await;
        let namespace = server.namespace().await;
        let team = server.namespace().await;
        let objects = Objects::of(&server, &namespace).await;
        let mut collector = Collector::start(&server.kubeconfig(), &namespace, &[]).await;
        collector.expect_leading(true).await;
        let [ours, theirs, late] =
            ["ours", "theirs", "late"].map(|name| format!("{name}.{team}.example.com."));
        collector.nameserver.set(&ours, &["192.0.2.1"], 300);
        collector.nameserver.set(&theirs, &["192.0.2.2"], 300);
        collector.nameserver.set(&late, &["192.0.2.3"], 300);
        let began = Instant::now();
        allow(&server, &team, &[&ours, &theirs, &late]).await;
        let foreign = objects.make("of-somebody-else", &theirs).await;
        objects.expect(&theirs, &["192.0.2.2"]).await;
        let used = began.elapsed();
        objects.expect(&ours, &["192.0.2.1"]).await;
        let made = began.elapsed();
        judge("a foreign object was used", used, CREATE_AFTER);
        assert!(!is_long() || made >= CREATE_AFTER, "{made:?}");
        let latest = CREATE_AFTER + Duration::from_secs(5);
        judge("an own one was made", made, latest);
        let uids = async |name: &str| {
            let objects = objects.named(name).await.unwrap();
            objects.iter().map(ResourceExt::uid).collect::<Vec<_>>()
        };
        assert_eq!(uids(&theirs).await, [foreign.uid()], "no second one");

        // Others may create theirs in its place, which then belongs to them.
        objects.expect(&late, &["192.0.2.3"]).await;
        let own = objects.named(&late).await.unwrap().remove(0).name_any();
        let deleted = objects.api.delete(&own, &DeleteParams::default()).await;
        deleted.unwrap();
        let replacing = objects.make(&own, &late).await;
        objects.expect(&late, &["192.0.2.3"]).await;

        // The others are maintained as before.
        for name in [&theirs, &late] {
            collector.hears(name, &[[10, 0, 0, 1].into()], 600).await;
        }
        objects.expect(&theirs, &["192.0.2.2", "10.0.0.1"]).await;
        objects.expect(&late, &["192.0.2.3", "10.0.0.1"]).await;
        assert_eq!(uids(&theirs).await, [foreign.uid()]);
        assert_eq!(uids(&late).await, [replacing.uid()]);
    }
}
