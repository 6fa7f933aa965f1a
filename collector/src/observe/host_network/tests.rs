use std::sync::Arc;

use runtime::{
    cluster_cidrs::{Networks, Purpose},
    endpoints::{Conditions, Endpoints},
    kube_events::Report,
};
use tokio::{sync::watch, task::JoinHandle, time::sleep};

use super::*;

fn ip(last: u8) -> IpAddr {
    [192, 0, 2, last].into()
}

fn endpoints(lasts: &[u8]) -> Option<Endpoints> {
    let conditions = Conditions {
        ready: true,
        serving: true,
        terminating: false,
    };
    let endpoints = lasts
        .iter()
        .map(|last| ((ip(*last), 53).into(), conditions));
    Some(Arc::new(endpoints.collect()))
}

fn nodes(lasts: &[u8]) -> Option<Arc<Networks>> {
    let nodes = lasts.iter().map(|last| (Purpose::Nodes, ip(*last).into()));
    Some(Arc::new(Networks::new(nodes)))
}

struct World {
    servers: DnsServers,
    endpoints: watch::Sender<Option<Endpoints>>,
    networks: watch::Sender<Option<Arc<Networks>>>,
    reports: tokio::sync::mpsc::Receiver<Report>,
    task: JoinHandle<anyhow::Result<()>>,
    token: CancellationToken,
}

impl World {
    /// DNS servers 1 to 9, of which 1 to 8 are on the host network.
    fn start(services: &[&str]) -> Self {
        let (endpoints, listed) = watch::channel(endpoints(&[1, 2, 3, 4, 5, 6, 7, 8, 9]));
        let (networks, found) = watch::channel(nodes(&[1, 2, 3, 4, 5, 6, 7, 8]));
        let servers = DnsServers::new(listed, found);
        let (reporter, reports) = Reporter::with_queue(16);
        let token = CancellationToken::new();
        let services = services.iter().map(|it| it.parse().unwrap()).collect();
        let task = run(servers.clone(), services, reporter, token.clone());
        let task = tokio::spawn(task);
        Self {
            servers,
            endpoints,
            networks,
            reports,
            task,
            token,
        }
    }

    /// The next Event, and the time until it came.
    async fn told(&mut self) -> (Report, Duration) {
        let start = Instant::now();
        let report = self.reports.recv().await.unwrap();
        (report, start.elapsed())
    }

    async fn end(self) {
        self.token.cancel();
        self.task.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn dns_servers_that_dial_together_are_one_event_on_each_service() {
    let mut world = World::start(&["kube-system/kube-dns", "dns/other"]);
    for last in 1..=7 {
        world.servers.refuse(ip(last));
        world.servers.refuse(ip(last));
    }
    for name in ["kube-dns", "other"] {
        let (report, after) = world.told().await;
        assert!(after <= GATHER);
        assert_eq!(report.about.kind.as_deref(), Some("Service"));
        assert_eq!(report.about.name.as_deref(), Some(name));
        assert_eq!(report.reason, REASON);
        let all = "192.0.2.1, 192.0.2.2, 192.0.2.3, 192.0.2.4, 192.0.2.5 and 2 more are refused";
        assert!(report.note.contains(all), "{}", report.note);
        assert!(report.note.contains("--insecure-host-network"));
    }
    // They dial again and again, and one more comes: the Event is repeated later.
    for _ in 0..AGAIN.as_secs() / 10 - 10 {
        for last in 1..=8 {
            world.servers.refuse(ip(last));
        }
        sleep(Duration::from_secs(10)).await;
    }
    assert!(world.reports.try_recv().is_err());
    let (report, _) = world.told().await;
    assert!(report.note.contains("and 3 more"), "{}", report.note);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_refusal_ends_when_the_server_streams_well_leaves_or_stays_silent() {
    let world = World::start(&["kube-system/kube-dns"]);
    let settled = async || {
        // The task runs when something changes.
        sleep(Duration::from_secs(1)).await;
        world.servers.refused()
    };
    for last in [1, 2, 3, 4] {
        world.servers.refuse(ip(last));
    }
    drop(world.servers.prove(ip(1)));
    assert_eq!(settled().await, [ip(2), ip(3), ip(4)]);
    world.endpoints.send_replace(endpoints(&[3, 4]));
    assert_eq!(settled().await, [ip(3), ip(4)]);
    world.networks.send_replace(nodes(&[4]));
    assert_eq!(settled().await, [ip(4)]);
    sleep(Duration::from_secs(599)).await;
    assert!(world.servers.refused().is_empty());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn while_nobody_is_refused_nothing_is_told() {
    let mut world = World::start(&["kube-system/kube-dns"]);
    world.networks.send_replace(Some(Arc::default()));
    sleep(AGAIN).await;
    assert!(world.reports.try_recv().is_err());
    // This server moves off the host network before the first Event.
    world.networks.send_replace(nodes(&[1]));
    world.servers.refuse(ip(1));
    sleep(GATHER / 2).await;
    drop(world.servers.prove(ip(1)));
    sleep(AGAIN * 2).await;
    assert!(world.reports.try_recv().is_err());
    world.servers.refuse(ip(1));
    let (_, after) = world.told().await;
    assert_eq!(after, GATHER);
    world.end().await;
}
