use proto::facts::StreamState;

use super::*;

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);

/// A plan, and a clock that only this test advances.
struct World {
    plan: Plan,
    now: Instant,
    sent: Vec<Probe>,
}

fn server(i: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, i], 53))
}

fn plan(interval: Duration, names: usize, servers: u8) -> Plan {
    let name = |i| DnsName::parse(&format!("flush{i}.cluster.local")).unwrap();
    let mut plan = Plan::new(interval, (0..names).map(name).collect());
    plan.set_servers(&(1..=servers).map(server).collect());
    plan
}

impl World {
    fn new(names: usize, servers: u8) -> Self {
        Self {
            plan: plan(100 * MS, names, servers),
            now: Instant::now(),
            sent: Vec::new(),
        }
    }

    /// Lets time pass; `handle` is the network. Returns the number of probes.
    fn run(&mut self, time: Duration, mut handle: impl FnMut(&mut Self, Probe)) -> usize {
        let end = self.now + time;
        let before = self.sent.len();
        while self.now < end {
            for probe in self.plan.probes(self.now) {
                self.sent.push(probe);
                handle(self, probe);
            }
            self.now += self.plan.interval();
            self.plan.expire(self.now);
        }
        self.sent.len() - before
    }

    fn see(&mut self, nonce: Nonce, is_forwarded: bool) -> Option<Duration> {
        let seen = SeenProbe {
            nonce,
            is_forwarded,
            at: self.now + MS,
        };
        self.plan.on_seen(&seen, self.now + MS)
    }

    /// The server answers, and its stream shows the probe.
    fn streams(&mut self, probe: Probe) {
        self.see(probe.nonce, false);
        self.answers(probe);
    }

    /// The server answers, but has no stream to here.
    fn answers(&mut self, probe: Probe) {
        self.plan.on_answer(&probe, 3);
    }

    fn silent(&mut self, _: Probe) {}

    fn state(&self, i: u8, name: usize) -> StreamState {
        let keys = self.plan.blocks.keys();
        let mut all = keys.zip(self.plan.view(self.now));
        let found = all.find(|(key, _)| **key == (server(i), name));
        found.unwrap().1.state
    }
}

#[tokio::test(start_paused = true)]
async fn every_server_gets_a_probe_for_each_name_in_every_interval() {
    let mut world = World::new(2, 3);
    world.run(2 * S, World::streams);
    world.sent.clear();
    world.run(S, World::streams);
    for i in 1..=3 {
        for name in 0..2 {
            assert_eq!(world.state(i, name), StreamState::Streaming);
            let of_block = world
                .sent
                .iter()
                .filter(|probe| probe.block == (server(i), name));
            assert_eq!(of_block.count(), 10);
        }
    }
    world.plan.set_servers(&[server(2)].into());
    assert_eq!(world.run(S, World::streams), 20);
}

#[tokio::test(start_paused = true)]
async fn block_without_a_stream_gets_a_probe_every_five_seconds() {
    for handle in [World::silent, World::answers] {
        let mut world = World::new(1, 1);
        assert_eq!(world.run(20 * S, handle), 4);
        assert_eq!(world.state(1, 0), StreamState::Trying);
        world.run(2 * S, World::streams);
        assert_eq!(world.state(1, 0), StreamState::Streaming);
    }
}

#[tokio::test(start_paused = true)]
async fn block_that_forwards_a_probe_gets_no_more() {
    let mut world = World::new(2, 1);
    let forwards = |world: &mut World, probe: Probe| {
        world.streams(probe);
        if probe.block.1 == 1 {
            world.see(probe.nonce, true);
        }
    };
    world.run(60 * S, forwards);
    let to_it = world.sent.iter().filter(|probe| probe.block.1 == 1);
    assert_eq!(to_it.count(), 1);
    assert_eq!(world.state(1, 1), StreamState::Forwards);
    assert_eq!(world.state(1, 0), StreamState::Streaming);
}

#[tokio::test(start_paused = true)]
async fn block_without_probe_for_30_s_is_not_streaming() {
    let mut world = World::new(1, 1);
    world.run(3 * S, World::streams);
    // The network drops packets while the stream stays open.
    world.run(29 * S, World::silent);
    assert_eq!(world.state(1, 0), StreamState::Streaming);
    world.run(2 * S, World::silent);
    assert_eq!(world.state(1, 0), StreamState::NotStreaming);
    // It may forward probes now, and a server without a stream could not show that.
    assert!(world.run(60 * S, World::answers) <= 13);
    assert_eq!(world.state(1, 0), StreamState::NotStreaming);
    world.run(7 * S, World::streams);
    assert_eq!(world.state(1, 0), StreamState::Streaming);
}

#[tokio::test(start_paused = true)]
async fn answer_of_a_server_that_is_not_streaming_tells_why() {
    let rcode = |world: &World| world.plan.view(world.now).next().unwrap().rcode;
    let mut world = World::new(1, 1);
    world.run(3 * S, World::streams);
    world.run(40 * S, World::answers);
    assert_eq!(rcode(&world), Some(3));
    world.run(40 * S, World::silent);
    assert_eq!(rcode(&world), None);
}

#[test]
fn interval_grows_with_the_number_of_blocks() {
    for (interval, names, servers, expected) in [
        (100, 1, 1, 100),
        (100, 1, 100, 100),
        (100, 1, 200, 200),
        (10, 1, 1, 10),
        (10, 2, 50, 100),
        // Several probes are sent in the 30 s.
        (600_000, 1, 1, 10_000),
    ] {
        let plan = plan(MS * interval, names, servers);
        assert_eq!(plan.interval(), MS * expected);
    }
}
