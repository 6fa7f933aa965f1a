//! The lower bound for any client: prepared bytes, a socket, and the reply.

use std::{
    fmt::Write as _,
    io::{Read, Write},
    net::IpAddr,
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use bytes::BytesMut;
use ovsdb_replica::transport::{Framing, Limits};
use serde_json::{Value, json};
use tokio_util::codec::Decoder;

pub(crate) struct Raw {
    socket: UnixStream,
    buffer: BytesMut,
    framing: Framing,
}

impl Raw {
    pub(crate) fn connect(remote: &str) -> Self {
        Self {
            socket: UnixStream::connect(remote.strip_prefix("unix:").unwrap()).unwrap(),
            buffer: BytesMut::new(),
            framing: Framing::new(Limits::default()),
        }
    }

    /// Encodes a transaction.
    pub(crate) fn prepare(operations: impl IntoIterator<Item = Value>) -> Vec<u8> {
        let mut params = vec![json!("OVN_Northbound")];
        params.extend(operations);
        serde_json::to_vec(&json!({ "method": "transact", "params": params, "id": 0 })).unwrap()
    }

    /// Sends it, waits for the reply, and returns the time.
    pub(crate) fn transact(&mut self, prepared: &[u8]) -> Duration {
        let start = Instant::now();
        self.socket.write_all(prepared).unwrap();
        let reply = self.reply();
        let took = start.elapsed();
        results(&reply);
        took
    }

    /// Sends all of them without a wait, and then waits for all replies.
    pub(crate) fn pipeline(&mut self, prepared: &[Vec<u8>]) -> Duration {
        let mut writing = self.socket.try_clone().unwrap();
        let start = Instant::now();
        let replies: Vec<_> = std::thread::scope(|scope| {
            scope.spawn(|| {
                prepared
                    .iter()
                    .for_each(|bytes| writing.write_all(bytes).unwrap())
            });
            prepared.iter().map(|_| self.reply()).collect()
        });
        let took = start.elapsed();
        for reply in replies {
            results(&reply);
        }
        took
    }

    /// Creates a row for each list of addresses, and returns their `_uuid`.
    ///
    /// The writer does not monitor rows of this owner, so the server only does the requested work for them.
    pub(crate) fn make_rows(&mut self, prefix: &str, rows: &[Vec<IpAddr>]) -> Vec<String> {
        let mut uuids = Vec::new();
        for (batch, rows) in rows.chunks(1000).enumerate() {
            let insert = |(n, addresses): (usize, &Vec<IpAddr>)| {
                json!({ "op": "insert", "table": "Address_Set", "row": {
                    "name": format!("{prefix}{}", batch * 1000 + n),
                    "addresses": set(addresses),
                    "external_ids": external_ids(),
                }})
            };
            let prepared = Self::prepare(rows.iter().enumerate().map(insert));
            self.socket.write_all(&prepared).unwrap();
            let made = results(&self.reply());
            uuids.extend(
                made.iter()
                    .map(|row| row["uuid"][1].as_str().unwrap().to_owned()),
            );
        }
        uuids
    }

    fn reply(&mut self) -> BytesMut {
        let mut chunk = [0; 64 << 10];
        loop {
            if let Some(message) = self.framing.decode(&mut self.buffer).unwrap() {
                return message;
            }
            let read = self.socket.read(&mut chunk).unwrap();
            assert_ne!(read, 0, "the server hung up");
            self.buffer.extend_from_slice(&chunk[..read]);
        }
    }
}

/// The mutation of one row's addresses.
pub(crate) fn mutate(uuid: &str, mutator: &str, addresses: &[IpAddr]) -> Value {
    json!({
        "op": "mutate", "table": "Address_Set", "where": [["_uuid", "==", ["uuid", uuid]]],
        "mutations": [["addresses", mutator, set(addresses)]],
    })
}

/// The transaction that replaces one row's whole column, encoded as fast as possible.
pub(crate) fn whole_column(uuid: &str, addresses: &[IpAddr]) -> Vec<u8> {
    let mut text = format!(
        r#"{{"method":"transact","id":0,"params":["OVN_Northbound",{{"op":"update","table":"Address_Set",
        "where":[["_uuid","==",["uuid","{uuid}"]]],"row":{{"addresses":["set",["#
    );
    for address in addresses {
        write!(text, "\"{address}\",").unwrap();
    }
    text.pop();
    text.push_str("]]}}]}");
    text.into_bytes()
}

/// The `external_ids` of the rows.
fn external_ids() -> Value {
    json!(["map", [["k8s.ovn.org/owner-type", "Bench"]]])
}

fn set(addresses: &[IpAddr]) -> Value {
    json!(["set", addresses])
}

/// The results of a transaction; each must have changed a row.
fn results(reply: &[u8]) -> Vec<Value> {
    let reply: Value = serde_json::from_slice(reply).unwrap();
    let results = reply["result"].as_array().expect("a result");
    for result in results {
        assert!(result["count"] == 1 || !result["uuid"].is_null(), "{reply}");
    }
    results.clone()
}
