//! The servers of the demo, with the files of `deploy/examples/demo`, and its output.

use std::{
    fs,
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    time::Duration,
};

use hickory_proto::rr::RecordType;
use proto::api::Family;
use tests::{store::Store, transaction_log, workdir::Workdir, world::World};
use tokio::time::Instant;

/// The name of the probes is one that CoreDNS answers by itself.
const PROBES: [&str; 4] = [
    "--flush-probe",
    "10ms",
    "--flush-name",
    "flush.shop.example",
];

const INSPECT: [&str; 2] = ["--inspect", "tcp://127.0.0.1:0"];

pub(crate) struct Stage {
    pub(crate) world: World,
}

impl Stage {
    /// Starts everything in a temporary folder, with copies of the files.
    pub(crate) async fn set() -> Self {
        let workdir = Workdir::transient();
        copy(&examples(), workdir.path());
        let store = Store::new(workdir.join("store"));
        let mut world = World::start_in(workdir, store, &[]).await;
        // A CoreDNS that answers probes and does not stream would be probed again only after five seconds.
        world.coredns.process().kill();
        world
            .restart_asking(&[&PROBES[..], &INSPECT].concat())
            .await;
        Self { world }
    }

    /// Waits until a probe of the collector came back in CoreDNS's stream.
    pub(crate) async fn is_streaming(&self) {
        let streaming = ["state=\"streaming\""];
        let blocks = "egress_collector_dns_blocks";
        self.world.collector.counts(blocks, &streaming, 1.0).await;
    }

    /// Looks names up like a pod, each with the rule that names it; then shows each family's addresses as they arrive.
    /// Returns how long those took that were not there before.
    pub(crate) async fn look_up(&self, names: &[(&str, &str)]) -> Vec<Duration> {
        let mut times = Vec::new();
        let mut replies = Vec::new();
        for (asked, rule) in names {
            for (kind, family) in [(RecordType::A, Family::V4), (RecordType::AAAA, Family::V6)] {
                let reply = self.world.coredns.ask(asked, kind).await;
                if !reply.addresses().is_empty() {
                    replies.push((*asked, *rule, family, reply));
                }
            }
        }
        for (asked, rule, family, reply) in replies {
            let mut after = Duration::ZERO;
            for address in reply.addresses() {
                let seen = self.seen(rule, family, &address.to_string()).await;
                after = after.max(seen.saturating_duration_since(reply.at));
            }
            times.extend(Some(after).filter(|after| !after.is_zero()));
            let addresses = reply.addresses().into_iter();
            let addresses: Vec<_> = addresses.map(|it| it.to_string()).collect();
            let after = match after.as_secs_f64() * 1e3 {
                0.0 => "before it".to_owned(),
                millis => format!("{millis:.1} ms"),
            };
            println!(
                "  {asked:<28} {rule:<24} {family:<4} {:<32} {after:>9}",
                addresses.join(" "),
            );
        }
        times
    }

    /// The first time at which the address was in the set of the name; waits for it if needed.
    pub(crate) async fn seen(&self, name: &str, family: Family, address: &str) -> Instant {
        transaction_log::seen(self.world.workdir.path(), name, family, address).await
    }

    /// Every address that has left a set.
    pub(crate) fn departures(&self) -> Vec<String> {
        transaction_log::departures(self.world.workdir.path())
    }
}

/// Prints the heading of the table of [`Stage::look_up`].
pub(crate) fn table_heading() {
    println!(
        "  {:<28} {:<24} {:<4} {:<32} {:>9}",
        "looked up", "address set of", "", "addresses", "answer→row"
    );
}

/// A heading, bold on a terminal.
pub(crate) fn heading(text: &str) {
    if io::stdout().is_terminal() {
        println!("\n\x1b[1m{text}\x1b[0m");
    } else {
        println!("\n{text}");
    }
}

/// The folder with the demo's files.
fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/examples/demo")
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("the demo's files") {
        let entry = entry.expect("a file of the demo");
        let to = to.join(entry.file_name());
        if entry.file_type().expect("its kind").is_dir() {
            fs::create_dir_all(&to).expect("a folder");
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("a copy");
        }
    }
}
