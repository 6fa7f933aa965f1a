use proptest::prelude::*;

use super::*;
use crate::flush::{
    probe::ProbeMark,
    schedule::COVERAGE,
    streams::{Flow, Opened, StreamId},
};

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);

/// A plan, and a clock that only this test advances.
struct World {
    plan: Plan,
    now: Instant,
    flows: BTreeMap<StreamId, (Option<IpAddr>, Flow)>,
    sent: Vec<(Duration, Probe)>,
    start: Instant,
}

fn server(i: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, i], 53))
}

fn servers(of: std::ops::RangeInclusive<u8>) -> BTreeSet<SocketAddr> {
    of.map(server).collect()
}

fn name(i: usize) -> DnsName {
    DnsName::parse(&format!("flush{i}.cluster.local")).unwrap()
}

impl World {
    fn new(interval: Duration, budget: u32, names: usize) -> Self {
        let now = Instant::now();
        let config = Config {
            interval,
            budget: NonZeroU32::new(budget).unwrap(),
            names: (0..names).map(name).collect(),
        };
        let mut plan = Plan::new(config, now);
        plan.is_wanted = true;
        Self {
            plan,
            now,
            flows: BTreeMap::new(),
            sent: Vec::new(),
            start: now,
        }
    }

    fn open(&mut self, id: StreamId, peer: Option<IpAddr>) {
        self.flows.insert(id, (peer, Flow::default()));
        self.pass_on();
    }

    fn close(&mut self, id: StreamId) {
        self.flows.remove(&id);
        self.pass_on();
    }

    fn pass_on(&mut self) {
        let flows = self.flows.iter();
        let open = flows.map(|(id, (peer, flow))| {
            let (peer, flow) = (*peer, flow.clone());
            (*id, Opened { peer, flow })
        });
        self.plan.set_open(Arc::new(open.collect()));
    }

    /// Lets time pass; `answer` handles each probe.
    fn run(&mut self, time: Duration, mut answer: impl FnMut(&mut Self, Probe)) {
        let end = self.now + time;
        loop {
            let (probes, next) = self.plan.due(self.now);
            for probe in &probes {
                self.sent.push((self.now - self.start, *probe));
                answer(self, *probe);
            }
            if !probes.is_empty() {
                // Handling the probes may have made others due.
                continue;
            }
            match next {
                Some(next) if next < end => {
                    assert!(next > self.now, "it turns in circles");
                    self.now = next;
                }
                _ => break,
            }
        }
        self.now = end;
    }

    fn see(&mut self, probe: Probe, stream: StreamId, is_forwarded: bool) -> Option<Duration> {
        self.see_from(probe.server, probe.name, probe.nonce, stream, is_forwarded)
    }

    fn see_from(
        &mut self,
        server: SocketAddr,
        name: usize,
        nonce: Nonce,
        stream: StreamId,
        is_forwarded: bool,
    ) -> Option<Duration> {
        let seen = SeenProbe {
            stream,
            mark: ProbeMark { server, nonce },
            name,
            is_forwarded,
            source: "192.0.2.2".parse().ok(),
            at: self.now + MS,
        };
        self.plan.seen(&seen, self.now + MS)
    }

    /// Answers every probe, and shows it in this stream.
    fn reports(stream: StreamId) -> impl FnMut(&mut Self, Probe) {
        move |world, probe| {
            world.see(probe, stream, false);
            world.plan.answered(&probe, 3, world.now + MS);
        }
    }

    fn silent(_: &mut Self, _: Probe) {}

    fn state(&self, server: SocketAddr, name: usize) -> BlockState {
        let mut all = self.plan.all();
        let found = all.find(|(key, ..)| *key == (server, name));
        found.unwrap().2
    }

    /// The number of probes since the last call.
    fn count(&mut self) -> usize {
        std::mem::take(&mut self.sent).len()
    }

    /// Adds another collector, with the source address of its probes.
    fn another(&mut self) {
        let address = "192.0.2.2".parse().unwrap();
        self.plan.collectors = Arc::new([address].into());
    }

    /// Shows a probe of the other collector in the stream.
    fn see_anothers(&mut self, i: u8, stream: StreamId) {
        self.see_from(server(i), 0, nonce(), stream, false);
        self.flows[&stream].1.has_moved(self.now, false);
    }

    fn is_heard(&self, i: u8) -> bool {
        let mut all = self.plan.all();
        all.any(|(key, target, _)| key == (server(i), 0) && target.is_heard())
    }
}

/// One server whose stream comes over a unix socket, after its first probe.
fn flushed(interval: Duration) -> World {
    let mut world = World::new(interval, 1000, 1);
    world.plan.set_servers(&servers(1..=1));
    world.open(7, None);
    world.run(S * 2, World::reports(7));
    assert_eq!(world.state(server(1), 0), BlockState::Flushed);
    world.count();
    world
}

#[tokio::test(start_paused = true)]
async fn a_first_probe_lost_with_its_server_is_resent_when_a_stream_opens() {
    let mut world = World::new(100 * MS, 1000, 1);
    world.plan.set_servers(&servers(1..=1));
    world.open(1, None);
    world.run(S, World::silent);
    assert_eq!(world.count(), 1);
    world.close(1);
    world.open(2, None);
    world.run(3 * S, World::reports(2));
    assert_eq!(world.state(server(1), 0), BlockState::Flushed);
    assert!(world.count() > 5);
    // An answered probe that was not seen is none: the server may have forwarded it.
    let mut world = World::new(100 * MS, 1000, 1);
    world.plan.set_servers(&servers(1..=1));
    world.run(S, |world, probe| {
        world.plan.answered(&probe, 3, world.now + MS)
    });
    world.open(1, None);
    world.run(S, World::silent);
    assert_eq!(world.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_first_probe_is_alone_until_it_is_clear_what_becomes_of_it() {
    let mut world = World::new(MS * 10, 1000, 1);
    world.plan.set_servers(&servers(1..=1));
    world.open(7, None);
    world.run(S, World::reports(7));
    assert_eq!(world.state(server(1), 0), BlockState::Trying);
    assert_eq!(world.count(), 1);
    world.run(S, World::reports(7));
    assert_eq!(world.state(server(1), 0), BlockState::Flushed);
    assert!((45..=50).contains(&world.count()));
}

#[tokio::test(start_paused = true)]
async fn a_block_that_sends_the_probe_on_gets_no_more_of_them() {
    let mut world = World::new(MS * 10, 1000, 2);
    world.plan.set_servers(&servers(1..=1));
    world.open(7, None);
    world.run(S, |world, probe| {
        world.see(probe, 7, false);
        if probe.name == 1 {
            world.see(probe, 7, true);
        }
        world.plan.answered(&probe, 3, world.now + MS);
    });
    let key = (server(1), 1);
    assert_eq!(world.plan.take_notices(), [Notice::Forwards(key)]);
    world.run(S * 600, World::reports(7));
    let to_it = world.sent.iter().filter(|(_, probe)| probe.name == 1);
    assert_eq!(to_it.count(), 1);
    assert_eq!(world.state(server(1), 1), BlockState::Forwards);
    assert_eq!(world.state(server(1), 0), BlockState::Flushed);
    // Nor when it dials again, and it is not reported.
    world.close(7);
    world.open(8, None);
    world.run(S * 60, World::reports(8));
    assert_eq!(world.state(server(1), 1), BlockState::Forwards);
    assert_eq!(world.plan.take_notices(), []);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_while_no_name_is_wanted_and_nobody_is_named() {
    let mut world = World::new(MS * 10, 1000, 1);
    world.plan.is_wanted = false;
    world.plan.set_servers(&servers(1..=3));
    world.open(7, None);
    world.run(S * 600, World::silent);
    assert_eq!(world.count(), 0);
    assert_eq!(world.state(server(1), 0), BlockState::Resting);
    world.plan.is_wanted = true;
    world.run(S * 31, World::silent);
    assert_eq!(world.state(server(1), 0), BlockState::NotReporting);
    world.plan.is_wanted = false;
    world.run(S, World::silent);
    let sighted = |notice: &&Notice| matches!(notice, Notice::Reporting(_));
    let notices = world.plan.take_notices();
    assert_eq!(notices.iter().filter(sighted).count(), 3);
    world.count();
    world.run(S * 600, World::silent);
    assert_eq!(world.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_flows_by_itself_is_probed_once_a_minute() {
    let mut world = flushed(MS * 100);
    for _ in 0..3000 {
        world.flows[&7].1.has_moved(world.now, true);
        world.run(MS * 20, World::reports(7));
    }
    let count = world.count();
    assert!((1..=2).contains(&count), "{count}");
    world.run(S * 10, World::reports(7));
    assert!((95..=101).contains(&world.count()));
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_named_after_30_s_and_no_longer_once_it_reports() {
    let mut world = flushed(MS * 100);
    let key = (server(1), 0);
    // The network drops packets while the stream stays open.
    world.run(S * 29, World::silent);
    assert_eq!(world.plan.take_notices(), []);
    world.run(S * 2, World::silent);
    assert_eq!(world.plan.take_notices(), [Notice::NotReporting(key)]);
    assert_eq!(world.state(server(1), 0), BlockState::NotReporting);
    // A dead server is probed at least once a minute, but not ten times a second.
    world.count();
    world.run(S * 600, World::silent);
    let count = world.count();
    assert!((10..=20).contains(&count), "{count}");
    world.run(COVERAGE + S, World::reports(7));
    assert_eq!(world.plan.take_notices(), [Notice::Reporting(key)]);
    assert_eq!(world.state(server(1), 0), BlockState::Flushed);
}

#[tokio::test(start_paused = true)]
async fn a_server_without_a_stream_is_named_and_one_that_left_is_not() {
    let mut world = World::new(MS * 100, 1000, 1);
    world.plan.set_servers(&servers(1..=2));
    let answers = |world: &mut World, probe: Probe| world.plan.answered(&probe, 5, world.now);
    world.run(S * 31, answers);
    let blind = [1, 2].map(|i| Notice::NotReporting((server(i), 0)));
    assert_eq!(world.plan.take_notices(), blind);
    world.plan.set_servers(&servers(2..=2));
    let sighted = Notice::Reporting((server(1), 0));
    assert_eq!(world.plan.take_notices(), [sighted]);
}

#[tokio::test(start_paused = true)]
async fn a_new_stream_of_its_address_is_a_reason_to_probe_a_server_at_once() {
    let mut world = World::new(MS * 100, 1000, 1);
    world.plan.set_servers(&servers(1..=2));
    world.run(S * 500, World::silent);
    world.plan.take_notices();
    world.count();
    world.open(7, Some(server(1).ip()));
    world.run(MS, World::reports(7));
    assert_eq!(world.count(), 1);
    assert_eq!(
        world.plan.take_notices(),
        [Notice::Reporting((server(1), 0))]
    );
    world.run(S * 2, World::silent);
    world.close(7);
    assert!(!world.is_heard(1));
}

#[tokio::test(start_paused = true)]
async fn what_somebody_else_makes_up_is_believed_in_nothing() {
    let mut world = World::new(MS * 100, 1000, 1);
    world.plan.set_servers(&servers(1..=1));
    world.open(7, None);
    world.run(S, World::silent);
    for is_forwarded in [false, true] {
        world.see_from(server(1), 0, nonce(), 7, is_forwarded);
        world.see_from(server(9), 0, nonce(), 7, is_forwarded);
    }
    world.run(S * 31, World::silent);
    assert_eq!(world.state(server(1), 0), BlockState::NotReporting);
}

#[tokio::test(start_paused = true)]
async fn the_budget_is_kept_and_shared() {
    let mut world = World::new(MS * 10, 100, 2);
    world.plan.set_servers(&servers(1..=50));
    world.open(7, None);
    // Each of the hundred blocks has its stream.
    world.run(S * 10, World::reports(7));
    world.count();
    world.run(S * 10, World::reports(7));
    let mut of_each = BTreeMap::<BlockKey, usize>::new();
    for (_, probe) in &world.sent {
        *of_each.entry((probe.server, probe.name)).or_default() += 1;
    }
    assert_eq!(of_each.len(), 100);
    assert!(
        of_each.values().all(|count| (8..=11).contains(count)),
        "{of_each:?}"
    );
    assert!(world.count() <= 1010);
}

#[tokio::test(start_paused = true)]
async fn of_two_collectors_one_probes_and_the_other_helps_out_when_it_does_not() {
    let mut world = flushed(MS * 100);
    world.another();
    for _ in 0..100 {
        world.see_anothers(1, 7);
        world.run(MS * 100, World::reports(7));
    }
    assert_eq!(world.count(), 0);
    assert_eq!(world.state(server(1), 0), BlockState::Standby);
    // The other collector has died.
    world.run(MS * 160, World::reports(7));
    assert_eq!(world.count(), 1);
    assert_eq!(world.state(server(1), 0), BlockState::Flushed);
    world.run(S, World::reports(7));
    assert!((9..=10).contains(&world.count()));
}

/// Two collectors see the probes of both in the same order. The collector with the last probe
/// continues, whenever each of them began.
#[tokio::test(start_paused = true)]
async fn two_collectors_that_begin_together_agree_on_one() {
    for (first, second) in [(0, 0), (0, 1), (40, 0), (99, 3)] {
        let mut worlds = [flushed(MS * 100), flushed(MS * 100)];
        for (world, head_start) in worlds.iter_mut().zip([first, second]) {
            world.another();
            world.run(MS * head_start, World::reports(7));
            world.count();
        }
        let mut counts = [0; 2];
        for round in 0..2_000 {
            for i in [0, 1] {
                let mut sent = Vec::new();
                worlds[i].run(MS, |_, probe| sent.push(probe));
                for probe in sent {
                    worlds[i].see(probe, 7, false);
                    worlds[1 - i].see_anothers(1, 7);
                    counts[i] += usize::from(round >= 1_000);
                }
            }
        }
        assert!(counts.contains(&0), "{counts:?}");
        assert!((9..=10).contains(&(counts[0] + counts[1])), "{counts:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn another_collectors_probe_shows_whose_a_stream_is() {
    let mut world = World::new(MS * 100, 1000, 1);
    world.plan.set_servers(&servers(1..=1));
    world.open(7, None);
    world.see_anothers(1, 7);
    assert!(!world.is_heard(1), "anybody can make up a probe");
    world.another();
    world.see_anothers(1, 7);
    assert!(world.is_heard(1));
    world.see_from(server(1), 0, nonce(), 7, true);
    assert_eq!(world.state(server(1), 0), BlockState::Forwards);
}

#[tokio::test(start_paused = true)]
async fn a_delay_is_measured_once_for_each_probe() {
    let mut world = flushed(MS * 100);
    world.open(8, None);
    let mut delays = Vec::new();
    world.run(S, |world, probe| {
        delays.push(world.see(probe, 7, false));
        delays.push(world.see(probe, 8, false));
    });
    let pairs: Vec<_> = delays.chunks(2).collect();
    assert!(pairs.len() >= 9);
    assert!(
        pairs.iter().all(|pair| *pair == [Some(MS), None]),
        "{pairs:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn the_probe_budget_always_holds_and_each_block_is_probed_every_minute(
        events in prop::collection::vec((0_u8..6, 0_u8..8, 1_u64..5_000), 1..40),
        interval in 50_u32..2000,
        budget in 20_u32..2000,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().start_paused(true).enable_time().build().unwrap();
        let _entered = runtime.enter();
        let mut world = World::new(MS * interval, budget, 2);
        let all = servers(0..=7);
        world.plan.set_servers(&all);
        let mut dead = BTreeSet::new();
        for (what, which, millis) in events {
            match what {
                0 => world.open(which.into(), None),
                1 => world.close(which.into()),
                2 => drop(dead.insert(server(which))),
                3 => drop(dead.remove(&server(which))),
                4 => world.open(which.into(), Some(server(which).ip())),
                _ => {
                    if let Some((_, flow)) = world.flows.get(&which.into()) {
                        flow.has_moved(world.now, true);
                    }
                }
            }
            world.run(MS * u32::try_from(millis).unwrap(), |world, probe| {
                let SocketAddr::V4(address) = probe.server else { unreachable!() };
                let stream = StreamId::from(address.ip().octets()[3]);
                if !dead.contains(&probe.server) {
                    world.see(probe, stream, false);
                    world.plan.answered(&probe, 0, world.now);
                }
            });
        }
        world.run(S * 60, World::silent);
        let end = world.now - world.start;
        for key in all.iter().flat_map(|server| [(*server, 0), (*server, 1)]) {
            let times = world.sent.iter().filter(|(_, it)| (it.server, it.name) == key);
            let times: Vec<Duration> = [Duration::ZERO].into_iter().chain(times.map(|(at, _)| *at)).chain([end]).collect();
            let gaps = times.windows(2).map(|two| two[1] - two[0]);
            prop_assert!(gaps.max().unwrap() <= S * 60, "{key:?} {times:?}");
        }
        for (i, (at, _)) in world.sent.iter().enumerate() {
            let within = world.sent[i..].iter().take_while(|(later, _)| *later < *at + S).count();
            prop_assert!(within <= (budget + budget / 10 + 1) as usize, "{within} of {budget} in a second");
        }
    }
}
