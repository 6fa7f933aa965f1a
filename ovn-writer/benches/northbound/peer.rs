//! Other OVSDB clients, each in a program of its own that reads events and prints times: libovsdb, the client of
//! ovn-kubernetes (`tests/tools/libovsdb`), and the IDL of Open vSwitch for Python (`tests/tools/peers/ovs_idl.py`).

use std::{
    ffi::OsStr,
    io::{BufRead, BufReader, Write},
    net::IpAddr,
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use tests::{
    ovn,
    programs::{peers_python, tool},
};

pub(crate) struct Peer {
    process: Child,
    events: ChildStdin,
    times: BufReader<ChildStdout>,
}

impl Peer {
    pub(crate) fn libovsdb(remote: &str) -> Self {
        Self::start(&tool("libovsdb"), [remote])
    }

    /// `None` without the packages of `scripts/setup --peers`.
    pub(crate) fn ovs_idl(remote: &str) -> Option<Self> {
        let python = peers_python()?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/tools/peers/ovs_idl.py");
        let schema = ovn::shared("ovn/ovn-nb.ovsschema");
        let args = [script.as_os_str(), remote.as_ref(), schema.as_os_str()];
        Some(Self::start(&python, args))
    }

    fn start<A: AsRef<OsStr>>(program: &Path, args: impl IntoIterator<Item = A>) -> Self {
        let mut process = Command::new(program)
            .args(args)
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

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The event that a set must have these addresses.
    pub(crate) fn event(set: &str, addresses: impl IntoIterator<Item = IpAddr>) -> Value {
        let addresses: Vec<_> = addresses.into_iter().collect();
        json!({ "name": set, "addresses": addresses })
    }

    /// Encodes events, so that it takes no time when they are applied.
    pub(crate) fn prepare(events: impl IntoIterator<Item = Value>) -> Vec<u8> {
        let events: Vec<_> = events.into_iter().collect();
        let mut line = serde_json::to_vec(&events).unwrap();
        line.push(b'\n');
        line
    }

    /// Returns the time from the decoded events to the last commit, as the program measures it.
    pub(crate) fn apply(&mut self, prepared: &[u8]) -> Duration {
        self.events.write_all(prepared).unwrap();
        let mut time = String::new();
        self.times.read_line(&mut time).unwrap();
        let nanoseconds = time
            .trim()
            .parse()
            .expect("the program commits the changes");
        Duration::from_nanos(nanoseconds)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended already.
        let _ended = self.process.kill();
        let _ended = self.process.wait();
    }
}
