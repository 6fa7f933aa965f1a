//! The whole job: answers of CoreDNS to clients become rows. This project does it, and a model of the resolver of ovn-kubernetes
//! without its flag ([`crate::periodic_resolver`]), with the same names, answers and queries.
//!
//! The DNS server behind CoreDNS gives each name a TTL of 5 to 60 s, and two new addresses in each answer. Two CoreDNS cache them,
//! as in most clusters, and a client asks one of them.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use tests::{
    bar_chart::Bar,
    coredns::CoreDns,
    kube::ApiServer,
    network::Network,
    northbound::Northbound,
    page::{table, update_table},
    transaction_log,
    upstream::{Scripted, Speech},
    wait::eventually,
    workdir::Workdir,
};
use tokio::time::{Instant, sleep, sleep_until};

use crate::{
    analysis::{Figures, Sets},
    dns_load::ask_steadily,
    observer::{Cost, Observer},
    update_chart,
};

const COREFILE: &str = "\
.:{$DNS_PORT} {
    errors
    DNSTAP
    cache
    template ANY ANY cluster.local {
        rcode NXDOMAIN
    }
    forward . UPSTREAM
}
";

const SHORTEST_TTL: u32 = 5;
const LONGEST_TTL: u32 = 60;

/// The clients' queries a second, for few and for many names.
const QUERIES: u32 = 50;
const MANY_QUERIES: u32 = 400;

/// Rows may come so long after the last answer.
const SETTLED: Duration = Duration::from_secs(2);

const HOUR: Duration = Duration::from_secs(3600);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Who {
    CoreDnsAlone,
    Model,
    Project,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    who: Who,
    names: usize,
    /// CoreDNS servers, each with its own cache.
    servers: usize,
    /// Whether the names are under one wildcard.
    wildcard: bool,
    /// Of a request to the API server.
    delay: Duration,
    /// Whether the observer is killed and started again after a third of the time.
    restart: bool,
}

struct Outcome {
    figures: Figures,
    cost: Cost,
    memory: u64,
    duration: Duration,
}

const ALONE: Case = Case {
    who: Who::CoreDnsAlone,
    names: 20,
    servers: 2,
    wildcard: false,
    delay: Duration::ZERO,
    restart: false,
};
const SLOW: Duration = Duration::from_millis(50);

/// The cases, side by side in time as in the table.
fn cases(is_quick: bool) -> Vec<Case> {
    let model = Case {
        who: Who::Model,
        ..ALONE
    };
    let project = Case {
        who: Who::Project,
        ..ALONE
    };
    if is_quick {
        let wildcard = Case {
            wildcard: true,
            ..project
        };
        return vec![ALONE, model, project, wildcard];
    }
    let mut cases = Vec::new();
    for names in [20, 200, 2_000] {
        let slow = Case {
            delay: SLOW,
            ..project
        };
        cases.extend([ALONE, model, project, slow].map(|case| Case { names, ..case }));
    }
    let [model, project] = [model, project].map(|case| Case { names: 200, ..case });
    let one = [model, project].map(|case| Case { servers: 1, ..case });
    let under = [
        model,
        project,
        Case {
            delay: SLOW,
            ..project
        },
    ];
    let under = under.map(|case| Case {
        wildcard: true,
        ..case
    });
    let restart = [model, project, under[1]].map(|case| Case {
        restart: true,
        ..case
    });
    cases
        .into_iter()
        .chain(one)
        .chain(under)
        .chain(restart)
        .collect()
}

pub(crate) async fn run(is_quick: bool) {
    let duration = Duration::from_secs(if is_quick { 4 } else { 45 });
    let server = ApiServer::start().await;
    let (mut lines, mut bars) = (Vec::new(), Vec::new());
    for case in cases(is_quick) {
        let Some(mut outcome) = case.run(&server, duration).await else {
            lines.push(case.refused());
            continue;
        };
        lines.push(case.line(&mut outcome));
        println!("{}", lines[lines.len() - 1].join(" | "));
        if case.who != Who::CoreDnsAlone
            && case.delay.is_zero()
            && !case.restart
            && case.servers > 1
        {
            let share = outcome.figures.incomplete_share();
            bars.push(Bar {
                label: format!("{} names, {}", case.words(), case.who()),
                value: share,
                text: format!("{share:.1} %"),
                is_ours: case.who == Who::Project,
            });
        }
    }
    let heading = "names|by|answer to row, ms|incomplete answers|missing for, ms|stays, s|API writes/h|API MB/h|CPU %|\
                   memory, MB|DNS, ms";
    let table = table(heading, &lines);
    println!("{table}");
    update_table("alternatives.md", &table);
    update_chart(
        "peers-job",
        "Answers to clients with an address that is not yet in OVN",
        &bars,
    );
}

impl Case {
    fn name(self, number: usize) -> String {
        match self.wildcard {
            true => format!("n{number}.wild.test."),
            false => format!("n{number}.named.test."),
        }
    }

    /// The heading of the first column says that the number is one of names.
    fn words(self) -> String {
        let names = match self.names {
            2_000 => "2,000".to_owned(),
            names => names.to_string(),
        };
        let marks = [
            (self.servers == 1, ", one CoreDNS"),
            (self.wildcard, ", wildcard"),
            (!self.delay.is_zero(), ", API 50 ms"),
            (self.restart, ", restart"),
        ];
        let marks = marks.iter().filter(|(is_so, _)| *is_so);
        marks.fold(names, |words, (_, mark)| words + mark)
    }

    fn who(self) -> &'static str {
        match self.who {
            Who::CoreDnsAlone => "CoreDNS alone",
            Who::Model => "model",
            Who::Project => "this project",
        }
    }

    /// Measures for this time; `None` if the observer refuses the rule.
    async fn run(self, server: &ApiServer, duration: Duration) -> Option<Outcome> {
        if self.who == Who::Model && self.wildcard {
            return None;
        }
        let workdir = Workdir::transient();
        let upstream = rotating().await;
        let northbound = Northbound::start(workdir.path()).await;
        let names: Vec<String> = (0..self.names).map(|number| self.name(number)).collect();
        let rules = match self.wildcard {
            true => vec!["*.wild.test.".to_owned()],
            false => names.clone(),
        };
        let mut networks = Vec::new();
        for _ in 0..self.servers {
            networks.push(Network::new(workdir.path()).await.expect("root"));
        }
        let dns: Vec<SocketAddr> = networks.iter().map(CoreDns::address_in).collect();
        // CoreDNS dials the collector when it starts, and then only every 10 seconds.
        let mut observer = match self.who {
            Who::CoreDnsAlone => Observer::Nothing,
            Who::Model => Observer::model(&workdir, dns[0], &names),
            Who::Project => Observer::project(&workdir, &dns, &rules, server, self.delay).await,
        };
        let dnstap = match self.who {
            Who::Project => format!(
                "dnstap unix://{} full",
                workdir.join("dnstap.sock").display()
            ),
            _ => String::new(),
        };
        let corefile = COREFILE.replace("DNSTAP", &dnstap);
        let mut servers = Vec::new();
        for (number, network) in networks.iter().enumerate() {
            let forward = SocketAddr::new(network.outside(), upstream.address.port());
            let corefile = corefile.replace("UPSTREAM", &forward.to_string());
            let folder = workdir.join(format!("coredns-{number}"));
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("Corefile"), corefile).unwrap();
            servers.push(CoreDns::start_in(&folder, network).await);
        }
        observer.is_streaming(servers.len()).await;
        if self.who != Who::CoreDnsAlone && !self.wildcard {
            all_have_addresses(&northbound, self.names).await;
        }
        let before = observer.cost().await;
        let start = Instant::now();
        let a_second = if self.names < 1_000 {
            QUERIES
        } else {
            MANY_QUERIES
        };
        let asking = ask_steadily(&dns, &names, a_second, start + duration);
        let restarting = async {
            if self.restart {
                sleep_until(start + duration / 3).await;
                observer.restart(&workdir).await;
            }
            sleep_until(start + duration).await;
            (observer.cost().await, observer.memory())
        };
        let (answers, (after, memory)) = tokio::join!(asking, restarting);
        sleep(SETTLED).await;
        let end = Instant::now();
        let figures = Figures::new(
            &answers,
            &Sets::new(&transaction_log::read(workdir.path())),
            end,
        );
        observer.end(server).await;
        Some(Outcome {
            figures,
            cost: Cost {
                cpu: after.cpu.saturating_sub(before.cpu),
                api_writes: after.api_writes - before.api_writes,
                api_bytes: after.api_bytes - before.api_bytes,
            },
            memory,
            duration,
        })
    }

    fn line(self, outcome: &mut Outcome) -> Vec<String> {
        let share = outcome.figures.incomplete_share();
        let figures = &mut outcome.figures;
        let [second, millisecond] = [Duration::from_secs(1), Duration::from_millis(1)];
        let hourly = HOUR.as_secs_f64() / outcome.duration.as_secs_f64();
        let cpu = outcome.cost.cpu.as_secs_f64() * 100.0 / outcome.duration.as_secs_f64();
        let mut cells = vec![
            figures.to_row.cell(millisecond),
            format!("{share:.1}%"),
            figures.missing.cell(millisecond),
            figures.stayed.cell(second),
            format!("{:.0}", outcome.cost.api_writes * hourly),
            format!("{:.0}", outcome.cost.api_bytes as f64 * hourly / 1e6),
            format!("{cpu:.1}"),
            (outcome.memory / 1_000_000).to_string(),
        ];
        if self.who == Who::CoreDnsAlone {
            cells.fill("–".to_owned());
        }
        // The counts of a killed process are gone.
        if self.restart {
            cells[4..7].fill("–".to_owned());
        }
        cells.push(figures.latency.cell(millisecond));
        [self.words(), self.who().to_owned()]
            .into_iter()
            .chain(cells)
            .collect()
    }

    fn refused(self) -> Vec<String> {
        let cells = ["refused"].into_iter().chain(["–"; 8]);
        [self.words(), self.who().to_owned()]
            .into_iter()
            .chain(cells.map(str::to_owned))
            .collect()
    }
}

/// A DNS server that gives each name its own TTL, and new addresses in each answer.
async fn rotating() -> Scripted {
    let next = AtomicU32::new(u32::from(Ipv4Addr::new(11, 0, 0, 1)));
    Scripted::start_at(Ipv4Addr::UNSPECIFIED.into(), move |asked| {
        let name = asked.name();
        let sum = name
            .bytes()
            .fold(0_u32, |sum, byte| sum.wrapping_mul(31) + u32::from(byte));
        let ttl = SHORTEST_TTL + sum % (LONGEST_TTL - SHORTEST_TTL + 1);
        let addresses: Vec<IpAddr> = match asked.is_v4() {
            true => {
                let first = next.fetch_add(2, Ordering::Relaxed);
                [first, first + 1]
                    .map(|it| Ipv4Addr::from(it).into())
                    .to_vec()
            }
            false => Vec::new(),
        };
        asked.ips(&addresses, ttl).say()
    })
    .await
}

async fn all_have_addresses(northbound: &Northbound, names: usize) {
    eventually("all names have addresses", async || {
        let filled = northbound
            .rows()?
            .iter()
            .filter(|row| !row.addresses.is_empty())
            .count();
        (filled >= names)
            .then_some(())
            .ok_or_else(|| format!("{filled} of {names}"))
    })
    .await;
}
