//! The load: queries for names that no rule has, and ACLs of other namespaces. It ends with its value.

use std::{
    net::{SocketAddr, UdpSocket},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use hickory_proto::{
    op::{Message, Query},
    rr::{Name, RecordType},
};

use crate::{datapath::AclChurn, ovsdb::Client};

/// Queries a second.
pub(super) const QUERIES: u64 = 5_000;

/// New ACLs a second. As many go.
pub(super) const ACLS: u64 = 100;

pub(super) struct Load {
    ends: Arc<AtomicBool>,
    replies: Arc<AtomicU64>,
    since: Instant,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    /// Starts it for this DNS server, and for the northbound database in the folder.
    ///
    /// # Panics
    /// If one of them does not run.
    pub(super) fn start(dns: SocketAddr, northbound: PathBuf) -> Self {
        let (ends, replies) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        socket.connect(dns).expect("an address");
        socket.set_nonblocking(true).expect("a socket");
        let (end, counted) = (Arc::clone(&ends), Arc::clone(&replies));
        let queries = thread::spawn(move || {
            let mut number = 0_u64;
            at_rate(QUERIES, &end, || {
                number += 1;
                // A lost query is only missing in the count.
                let _lost = socket.send(&query(number));
                while socket.recv(&mut [0; 512]).is_ok() {
                    counted.fetch_add(1, Relaxed);
                }
            });
        });
        let end = Arc::clone(&ends);
        let mut client = Client::connect(&northbound).expect("the server runs");
        let acls = thread::spawn(move || {
            let mut churn = AclChurn::default();
            at_rate(ACLS, &end, || churn.next(&mut client));
        });
        Self {
            ends,
            replies,
            since: Instant::now(),
            threads: vec![queries, acls],
        }
    }

    /// The replies a second so far.
    pub(super) fn replies_a_second(&self) -> f64 {
        self.replies.load(Relaxed) as f64 / self.since.elapsed().as_secs_f64()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.ends.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            assert!(ended.is_ok() || thread::panicking(), "the load failed");
        }
    }
}

/// Calls so many times a second. After a pause it catches up.
fn at_rate(a_second: u64, end: &AtomicBool, mut call: impl FnMut()) {
    let (began, mut calls) = (Instant::now(), 0);
    while !end.load(Relaxed) {
        let due = began.elapsed().as_micros() as u64 * a_second / 1_000_000;
        while calls < due {
            call();
            calls += 1;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn query(number: u64) -> Vec<u8> {
    let name = format!("n{}.load.test.", number % 10_000);
    let mut query = Message::query();
    query.metadata.recursion_desired = true;
    query.add_query(Query::query(
        Name::from_ascii(name).expect("a name"),
        RecordType::A,
    ));
    query.to_vec().expect("a message")
}
