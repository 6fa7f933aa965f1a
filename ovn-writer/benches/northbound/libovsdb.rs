//! libovsdb, the OVSDB client of ovn-kubernetes, in a program of its own (`tests/tools/libovsdb`).

use std::{
    io::{BufRead, BufReader, Write},
    net::IpAddr,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use tests::programs::tool;

pub(crate) struct Libovsdb {
    process: Child,
    events: ChildStdin,
    times: BufReader<ChildStdout>,
}

impl Libovsdb {
    pub(crate) fn start(remote: &str) -> Self {
        let mut process = Command::new(tool("libovsdb"))
            .arg(remote)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let events = process.stdin.take().unwrap();
        let times = BufReader::new(process.stdout.take().unwrap());
        Self {
            process,
            events,
            times,
        }
    }

    /// The event that a set must have these addresses.
    pub(crate) fn event(set: &str, addresses: impl IntoIterator<Item = IpAddr>) -> Value {
        let addresses: Vec<_> = addresses.into_iter().collect();
        json!({ "name": set, "addresses": addresses })
    }

    /// Encodes events, so that it takes no time when they are applied.
    pub(crate) fn prepare(events: impl IntoIterator<Item = Value>) -> Vec<u8> {
        let events: Vec<_> = events.into_iter().collect();
        serde_json::to_vec(&events).unwrap()
    }

    /// Returns the time from the decoded events to the last commit, as the program measures it.
    pub(crate) fn apply(&mut self, prepared: &[u8]) -> Duration {
        self.events.write_all(prepared).unwrap();
        let mut time = String::new();
        self.times.read_line(&mut time).unwrap();
        let nanoseconds = time.trim().parse().expect("libovsdb commits the changes");
        Duration::from_nanos(nanoseconds)
    }
}

impl Drop for Libovsdb {
    fn drop(&mut self) {
        // It may have ended already.
        let _ended = self.process.kill();
        let _ended = self.process.wait();
    }
}
