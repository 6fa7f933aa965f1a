//! The ovn-writer and ovn-kubernetes write the same sets from the same objects, and either may see a status first.

use std::{collections::BTreeMap, fs, net::IpAddr, path::Path, time::Duration};

use hickory_proto::{op::ResponseCode, rr::RecordType};
use proto::api::Family;
use tests::{
    allowed::{Stay, stays},
    monitor::Update,
    northbound::Northbound,
    ovnkube::{COMMENT, Follow, OvnKube},
    soak,
    store::Store,
    transaction_log,
    upstream::{Asked, Scripted, Speech},
    wait::eventually,
    workdir::Workdir,
    world::{Setup, World},
};
use tokio::time::{Instant, interval};

use super::address;

/// The names, and the interval in seconds at which each gets a new address.
const NAMES: [(&str, u64); 4] = [
    ("a.up.test.", 2),
    ("b.up.test.", 7),
    ("c.up.test.", 2),
    ("d.up.test.", 7),
];

const TTL: Duration = Duration::from_secs(5);

/// The maximum ratio of transactions to those without the ovn-writer.
const TRANSACTIONS: f64 = 1.05;

/// One thread drives both databases, one after the other.
const SLACK: Duration = Duration::from_millis(20);

/// The longest delay of ovn-kubernetes, or of its copying of objects, for a valid run. The ovn-writer waits for 500 ms,
/// so a slower machine proves nothing: the short form tries again.
const LATE: Duration = Duration::from_millis(300);

/// An address in an answer to a pod.
struct Told {
    key: (String, String),
    at: Instant,
}

impl Told {
    fn is_within_ttl(&self, at: Instant) -> bool {
        at >= self.at && at < self.at + TTL
    }

    /// How long within its TTL the address was in no set that a rule refers to.
    fn missing(&self, stays: &[Stay], end: Instant) -> Duration {
        let end = end.min(self.at + TTL);
        let present = stays.iter().map(|stay| {
            let to = stay.to.map_or(end, |(to, _)| to.min(end));
            to.saturating_duration_since(stay.from.max(self.at))
        });
        end.saturating_duration_since(self.at)
            .saturating_sub(present.sum())
    }
}

/// An upstream whose names get a new address every few seconds.
async fn rotating() -> Scripted {
    let start = Instant::now();
    Scripted::start(move |asked: &Asked| {
        let name = asked.name();
        let found = NAMES.iter().position(|(known, _)| *known == name);
        match found {
            Some(index) if asked.is_v4() || asked.is_v6() => {
                let (_, period) = NAMES[index];
                let turn = start.elapsed().as_secs() / period;
                let number = index as u32 * 30_000 + turn as u32;
                let ip = address(number, asked.is_v6());
                asked.ips(&[ip], TTL.as_secs() as u32).say()
            }
            _ => asked.reply(ResponseCode::NoError).say(),
        }
    })
    .await
}

async fn all_have_addresses(northbound: &Northbound) {
    eventually("all names have addresses", async || {
        let rows = northbound.rows()?;
        let has = |name: &str, family| {
            let mut rows = rows.iter().filter(|row| row.is_of(name, family));
            rows.any(|row| !row.addresses.is_empty())
        };
        let missing: Vec<&str> = NAMES
            .iter()
            .filter(|(name, _)| !Family::ALL.into_iter().all(|family| has(name, family)))
            .map(|(name, _)| *name)
            .collect();
        let none = missing.is_empty().then_some(());
        none.ok_or_else(|| format!("{missing:?} have none"))
    })
    .await;
}

/// Pods send five queries a second.
async fn ask(world: &World, lasts: Duration) -> Vec<Told> {
    let mut told = Vec::new();
    let mut pace = interval(Duration::from_millis(200));
    let names = NAMES.iter().cycle();
    let kinds = [RecordType::A, RecordType::AAAA];
    let kinds = kinds
        .iter()
        .flat_map(|kind| [*kind; NAMES.len()])
        .collect::<Vec<_>>();
    let start = Instant::now();
    for ((name, _), kind) in names.zip(kinds.into_iter().cycle()) {
        pace.tick().await;
        if start.elapsed() >= lasts {
            break;
        }
        let reply = world.coredns.ask(name, kind).await;
        let addresses = reply.addresses();
        assert_eq!(addresses.len(), 1);
        told.extend(addresses.iter().map(|ip: &IpAddr| Told {
            key: ((*name).to_owned(), ip.to_string()),
            at: reply.at,
        }));
    }
    told
}

/// The observations of one database.
struct Seen {
    updates: Vec<Update>,
    stays: BTreeMap<(String, String), Vec<Stay>>,
    transactions: usize,
    end: Instant,
}

impl Seen {
    fn of(folder: &Path, since: Instant, end: Instant) -> Self {
        let updates = transaction_log::read(folder);
        let counts = |update: &&Update| update.at >= since && update.at < end;
        Self {
            stays: stays(&updates),
            transactions: updates.iter().filter(counts).count(),
            updates,
            end,
        }
    }

    fn missing(&self, told: &Told) -> Duration {
        let stays = self.stays.get(&told.key).map(Vec::as_slice);
        told.missing(stays.unwrap_or_default(), self.end)
    }

    /// How long each address was missing within its TTL after it had been there.
    fn gaps(&self, told: &[Told]) -> Vec<Duration> {
        let gaps = told.iter().flat_map(|told| {
            let stays = self.stays.get(&told.key).map(Vec::as_slice);
            stays.unwrap_or_default().windows(2).filter_map(|pair| {
                let (from, _) = pair[0].to?;
                told.is_within_ttl(from).then(|| pair[1].from - from)
            })
        });
        gaps.collect()
    }

    /// The addresses within their TTL that the ovn-writer removed.
    fn taken_out_by_us(&self, told: &[Told]) -> Vec<String> {
        let ours = |index: usize| self.updates[index].comment.as_deref() != Some(COMMENT);
        let taken = told.iter().flat_map(|told| {
            let stays = self.stays.get(&told.key).into_iter().flatten();
            let ends = stays.filter_map(|stay| stay.to);
            let bad = ends.filter(|(at, index)| told.is_within_ttl(*at) && ours(*index));
            bad.map(|(at, _)| {
                let (name, ip) = &told.key;
                let left = told.at + TTL - at;
                format!("{ip} of {name}, {left:?} before its TTL was over")
            })
        });
        taken.collect()
    }
}

/// The result of some seconds of queries.
struct Run {
    told: Vec<Told>,
    statuses: usize,
    /// The ovn-writer's repairs, of each kind.
    repaired: [f64; 3],
    with: Seen,
    without: Seen,
    /// The addresses within their TTL that the ovn-writer removed.
    taken: Vec<String>,
    /// The longest delay of ovn-kubernetes, or of its copying of objects.
    late: Duration,
}

impl Run {
    async fn of(world: &World, ovnkube: &OvnKube, folders: [&Path; 2], lasts: Duration) -> Self {
        ovnkube.take_latest();
        let (start, before) = (Instant::now(), repairs(world).await);
        let statuses = ovnkube.statuses();
        let told = ask(world, lasts).await;
        let end = Instant::now();
        ovnkube.settled().await;
        let after = repairs(world).await;
        let [with, without] = folders.map(|folder| Seen::of(folder, start, end));
        let run = Self {
            statuses: ovnkube.statuses() - statuses,
            repaired: std::array::from_fn(|kind| after[kind] - before[kind]),
            taken: with.taken_out_by_us(&told),
            late: ovnkube.take_latest(),
            told,
            with,
            without,
        };
        run.print();
        run
    }

    /// The addresses that were missing for longer than without the ovn-writer.
    fn longer(&self) -> Vec<(&(String, String), Duration, Duration)> {
        self.told
            .iter()
            .map(|told| {
                (
                    &told.key,
                    self.with.missing(told),
                    self.without.missing(told),
                )
            })
            .filter(|(_, with, without)| *with > *without + SLACK)
            .collect()
    }

    fn print(&self) {
        println!(
            "{} answers, {} statuses; repairs {:?}; ovn-kubernetes was late by up to {} ms",
            self.told.len(),
            self.statuses,
            self.repaired,
            self.late.as_millis()
        );
        for (what, seen) in [
            ("with the ovn-writer", &self.with),
            ("without", &self.without),
        ] {
            let missing = self.told.iter().map(|told| seen.missing(told)).max();
            let gaps = seen.gaps(&self.told);
            println!(
                "{what}: {} transactions; an address is missing for at most {} ms; {} gaps, the longest {} ms",
                seen.transactions,
                missing.unwrap_or_default().as_millis(),
                gaps.len(),
                gaps.iter().max().map_or(0, Duration::as_millis),
            );
        }
        println!(
            "{} addresses taken out within their TTL, {} missing for longer than without",
            self.taken.len(),
            self.longer().len()
        );
    }
}

async fn repairs(world: &World) -> [f64; 3] {
    let kinds = ["missing_row", "missing_address", "surplus_address"];
    let mut repairs = [0.0; 3];
    for (count, kind) in repairs.iter_mut().zip(kinds) {
        let label = format!("kind=\"{kind}\"");
        let admin = world.ovn_writer.admin();
        let value = admin
            .metric("egress_ovn_writer_repairs_total", &[&label])
            .await;
        *count = value.expect("a metric");
    }
    repairs
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whichever_hears_first_no_address_is_taken_out_and_nothing_is_repaired() {
    let lasts = soak::or_long(Duration::from_secs(10), Duration::from_secs(300));
    let seed = soak::seed();
    let upstream = rotating().await;
    let (workdir, store) = World::prepare(&Setup {
        upstream: Some(upstream.address),
        ..Setup::default()
    });
    store.remove_egress_firewall("fence");
    // The same ovn-kubernetes writes to a second database, which has no ovn-writer.
    let northbound = Northbound::start(workdir.path()).await;
    let alone = Workdir::new();
    let without = Northbound::start(alone.path()).await;
    let published = Store::new(workdir.join("published"));
    fs::create_dir_all(published.objects_folder()).unwrap();
    let apart = soak::or_long(Duration::from_millis(100), Duration::from_millis(200));
    let follow = Follow::Randomly {
        seed,
        apart,
        published: published.clone(),
    };
    let ovnkube = OvnKube::start(&[workdir.path(), alone.path()], &store, follow);
    ovnkube.settled().await;
    let names = NAMES.map(|(name, _)| name);
    store.allow("team", &names);
    let mut world = World::start_apart(workdir, store, &published, northbound, &[]).await;
    world.restart_asking(&[]).await;
    for name in names {
        world.look_up(name).await;
    }
    all_have_addresses(&world.northbound).await;
    all_have_addresses(&without).await;

    let folders = [world.workdir.path(), alone.path()];
    let mut run = Run::of(&world, &ovnkube, folders, lasts).await;
    for _ in 0..soak::or_long(4, 0) {
        if run.late <= LATE {
            break;
        }
        run = Run::of(&world, &ovnkube, folders, lasts).await;
    }
    drop(ovnkube);
    assert!(run.statuses > 0 && run.without.transactions > 0);
    assert!(run.taken.is_empty(), "{:?}", run.taken);
    assert!(
        run.repaired.iter().all(|count| *count < 1.0),
        "what ovn-kubernetes wrote was repaired: {:?}",
        run.repaired
    );
    if soak::is_long() {
        let longer = run.longer();
        assert!(longer.is_empty(), "{longer:?}");
        let share = run.with.transactions as f64 / run.without.transactions as f64;
        assert!(share <= TRANSACTIONS, "{share}");
    }
}
