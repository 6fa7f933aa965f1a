//! An API server that answers 503 for a while, like one that is overloaded or shutting down.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use tests::{kube::ApiServer, wait::eventually, workdir::Workdir};

use crate::{
    collectors::{Collector, NEVER, Objects},
    history::{Addresses, History},
    proxy::{Asked, Proxy},
};

const NAME: &str = "www.example.com.";

/// A collector behind a proxy, on a foreign object.
struct Throttled {
    proxy: Proxy,
    collector: Collector,
    objects: Objects,
    history: History,
    told: Addresses,
    _workdir: Workdir,
}

impl Throttled {
    async fn start(server: &ApiServer) -> Self {
        let namespace = server.namespace().await;
        let objects = Objects::of(server, &namespace).await;
        objects.make("a", NAME).await;
        let (proxy, workdir) = (Proxy::start(server).await, Workdir::new());
        let kubeconfig = proxy.kubeconfig(&workdir);
        let mut throttled = Self {
            collector: Collector::start(&kubeconfig, &namespace, &NEVER).await,
            history: History::of(server, &namespace).await,
            proxy,
            objects,
            told: Addresses::new(),
            _workdir: workdir,
        };
        throttled.collector.expect_leading(true).await;
        throttled.tell(1).await;
        throttled.arrives().await;
        throttled
    }

    async fn tell(&mut self, i: u8) {
        let ip = IpAddr::from([10, 0, 0, i]);
        self.collector.hears(NAME, &[ip], 600).await;
        self.told.insert((NAME.to_owned(), ip.to_string()));
    }

    /// Sends it further answers until this many status writes were refused.
    async fn refused(&mut self, writes: usize) -> Vec<Asked> {
        eventually("writes are refused", async || {
            let next = u8::try_from(self.told.len() + 1).unwrap_or(u8::MAX);
            self.tell(next).await;
            let refused = self.proxy.refused();
            let refused: Vec<_> = refused
                .into_iter()
                .filter(|asked| asked.path.ends_with("/status"))
                .collect();
            (refused.len() >= writes)
                .then_some(refused.clone())
                .ok_or_else(|| format!("{refused:?}"))
        })
        .await
    }

    /// Waits until all sent addresses are in the object; returns how long that took.
    async fn arrives(&self) -> Duration {
        let started = Instant::now();
        eventually("all that was told is there", async || {
            let found = self.objects.addresses(NAME).await?;
            (found == self.told)
                .then_some(())
                .ok_or_else(|| format!("{} of {}", found.len(), self.told.len()))
        })
        .await;
        let took = started.elapsed();
        let left = self.history.departures().await;
        assert!(left.is_empty(), "{left:?}");
        took
    }
}

fn gaps(asked: &[Asked]) -> Vec<Duration> {
    let times = asked.windows(2);
    times.map(|pair| pair[1].at - pair[0].at).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_fails_is_asked_less_and_less_and_nothing_is_lost() {
    let server = ApiServer::shared().await;
    let mut throttled = Throttled::start(&server).await;
    throttled.proxy.refuse(503);
    let refused = throttled.refused(5).await;
    throttled.proxy.pass();
    let waits = gaps(&refused);
    assert!(waits.last() > waits.first(), "{waits:?}");
    let took = throttled.arrives().await;
    // It still holds the Lease.
    throttled.collector.expect_leading(true).await;
    throttled.collector.program.ready().await;
    println!("503: tried again after {waits:?}, all written {took:?} after the end");
}
