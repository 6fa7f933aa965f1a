//! The queries that a stock CoreDNS answers under dnsperf, and their delay, with several kinds of
//! readers and without any.

use std::{fs, path::Path, process::Stdio};

use rustix::process::Signal;
use tests::{
    coredns::{CoreDns, write_zone},
    store::Store,
    wait::eventually,
    workdir::Workdir,
    world::start_collector,
};
use tokio::process::Command;

use super::{Ratio, discard, median};

const COREFILE: &str = "
.:{$DNS_PORT} {
    bind 127.0.0.1
    dnstap unix://{$DNSTAP_SOCKET} full
    file example.com.zone example.com
}
";

/// The queried names, of which every tenth is wanted.
const NAMES: u32 = 1000;

/// The reader of CoreDNS's stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Reader {
    Discards,
    Collector,
    None,
    Stopped,
    Dead,
}

/// The results of dnsperf.
#[derive(Clone, Copy, Default)]
struct Answered {
    per_second: f64,
    p99_millis: f64,
}

pub(crate) async fn measure(quick: bool) -> Vec<Ratio> {
    use Reader::{Collector, Dead, Discards, None, Stopped};
    const READERS: [Reader; 5] = [Discards, Collector, None, Stopped, Dead];
    let (rounds, seconds) = if quick { (1, 2) } else { (9, 4) };
    println!("\nCoreDNS under dnsperf: queries/s, and p99 in milliseconds");
    println!(
        "{}",
        READERS
            .map(|it| format!("{:>18}", format!("{it:?}")))
            .concat()
    );
    let mut all = Vec::new();
    for _ in 0..rounds {
        let mut row = Vec::new();
        for reader in READERS {
            row.push(one(reader, seconds).await);
        }
        let shown = |it: &Answered| format!("{:>10.0} {:>7.2}", it.per_second, it.p99_millis);
        println!("{}", row.iter().map(shown).collect::<String>());
        all.push(row);
    }
    let place = |reader| READERS.iter().position(|it| *it == reader).unwrap();
    let ratio = |one, other, of: fn(&Answered) -> f64| {
        let ratios = all
            .iter()
            .map(|row| of(&row[place(one)]) / of(&row[place(other)]));
        median(&mut ratios.collect::<Vec<_>>())
    };
    let ratios = [
        (
            "CoreDNS, queries/s: ours to a reader that discards",
            Collector,
            Discards,
        ),
        (
            "CoreDNS, queries/s: ours stopped to no reader",
            Stopped,
            None,
        ),
        ("CoreDNS, queries/s: ours dead to no reader", Dead, None),
    ]
    .map(|(what, one, other)| Ratio {
        what,
        ratio: ratio(one, other, |it| it.per_second),
        least: 0.95,
    });
    let late = Ratio {
        what: "CoreDNS, p99: a reader that discards to ours",
        ratio: ratio(Discards, Collector, |it| it.p99_millis),
        least: 0.95,
    };
    ratios.into_iter().chain([late]).collect()
}

async fn one(reader: Reader, seconds: u32) -> Answered {
    let workdir = Workdir::new();
    fs::write(workdir.join("Corefile"), COREFILE).unwrap();
    let records: String = (0..NAMES)
        .map(|i| format!("n{i} IN A 198.18.{}.{}\n", i / 250, i % 250 + 1))
        .collect();
    let zone = workdir.join("example.com.zone");
    write_zone(&zone, "example.com.", 1, &records);
    let asked: String = (0..NAMES)
        .map(|i| format!("n{i}.example.com A\n"))
        .collect();
    fs::write(workdir.join("queries"), asked).unwrap();
    let store = Store::new(workdir.join("store"));
    let wanted: Vec<String> = (0..NAMES)
        .step_by(10)
        .map(|i| format!("n{i}.example.com"))
        .collect();
    store.allow(
        "team",
        &wanted.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    let mut discarding = Option::None;
    let mut collector = Option::None;
    match reader {
        Reader::None => {}
        Reader::Discards => discarding = Some(discard::start(&workdir.join("dnstap.sock"))),
        Reader::Collector | Reader::Stopped | Reader::Dead => {
            let started = start_collector(&workdir, &store, &["--resolver", "none"]).await;
            started.ready().await;
            collector = Some(started);
        }
    }
    let coredns = CoreDns::start(workdir.path()).await;
    if let Some(collector) = &mut collector {
        eventually("CoreDNS streams", async || {
            let open = collector
                .admin()
                .metric("egress_collector_connections", &[])
                .await;
            let open = open.map_err(|error| error.to_string())?;
            (open > 0.0).then_some(()).ok_or_else(|| open.to_string())
        })
        .await;
        match reader {
            Reader::Stopped => collector.process().signal(Signal::STOP),
            Reader::Dead => collector.process().kill(),
            _ => {}
        }
    }
    let port = coredns.address().port();
    // All wanted names are new at once, and the collector creates their objects meanwhile, which in
    // production takes a second a day.
    let _first_sights = dnsperf(&workdir, port, 1).await;
    let answered = dnsperf(&workdir, port, seconds).await;
    drop(discarding);
    answered
}

/// Queries as fast as the answers come, a hundred at a time.
async fn dnsperf(workdir: &Workdir, port: u16, seconds: u32) -> Answered {
    let out = workdir.join("dnsperf.out");
    let status = Command::new("dnsperf")
        .args(["-s", "127.0.0.1", "-p", &port.to_string(), "-d", "queries"])
        .args(["-q", "100", "-c", "4", "-l", &seconds.to_string(), "-v"])
        .current_dir(workdir.path())
        .stdin(Stdio::null())
        .stdout(fs::File::create(&out).unwrap())
        .stderr(Stdio::null())
        .status()
        .await
        .expect("dnsperf: scripts/setup installs it");
    assert!(status.success(), "{status}");
    read(&out)
}

fn read(out: &Path) -> Answered {
    let text = fs::read_to_string(out).unwrap();
    // Of each query: > NOERROR n1.example.com A 0.000123
    let times = text.lines().filter(|line| line.starts_with("> NOERROR "));
    let mut times: Vec<f64> = times
        .filter_map(|line| line.rsplit(' ').next()?.parse().ok())
        .collect();
    times.sort_unstable_by(f64::total_cmp);
    let per_second = text.lines().find_map(|line| {
        let figure = line.trim().strip_prefix("Queries per second:")?;
        figure.trim().parse().ok()
    });
    Answered {
        per_second: per_second.unwrap_or_default(),
        p99_millis: times
            .get(times.len() * 99 / 100)
            .map_or(0.0, |time| time * 1000.0),
    }
}
