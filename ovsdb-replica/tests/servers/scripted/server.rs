//! A server with one database of one table with one row, which gives scripted answers.

use std::{cell::RefCell, collections::BTreeMap, path::PathBuf, time::Duration};

use ovsdb_replica::{Client, ClientOptions, Remotes};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream},
};

/// The `_uuid` of its row.
pub(super) const UUID: &str = "b487b549-9d01-481e-aaf8-d194f26edc55";

ovsdb_replica::table! {
    /// A row of the one table of this server's one database.
    pub(super) struct Book in "Book", key title: String {
        pub(super) title: String,
    }
}

/// A server for one connection after another.
pub(super) struct Server {
    listener: UnixListener,
    path: PathBuf,
    /// The answers to methods, some with the database.
    answers: BTreeMap<&'static str, Answer>,
    /// What it sends unasked once the database was read, and whether it disconnects then.
    unasked: Vec<u8>,
    hangs_up: bool,
    /// For each answer that the client waits for.
    deadline: Duration,
    /// The transactions since which a client requested changes.
    pub(super) since: RefCell<Vec<String>>,
    _folder: TempDir,
}

#[derive(Clone)]
pub(super) enum Answer {
    /// The result of the request.
    Result(Value),
    /// The error of the request.
    Error(Value),
    /// These bytes, instead of a reply.
    Bytes(Vec<u8>),
    /// These bytes, and then the result of the request.
    After(Vec<u8>, Value),
    /// These bytes, and then the end of the connection.
    Last(&'static [u8]),
    /// No answer.
    Silence,
}

/// The schema of `_Server`.
pub(super) fn server_schema(version: &str) -> Value {
    let at_most_one = |kind: &str| json!({"type": {"key": kind, "min": 0}});
    let columns = json!({
        "name": {"type": "string"},
        "model": {"type": "string"},
        "connected": {"type": "boolean"},
        "leader": {"type": "boolean"},
        "cid": at_most_one("uuid"),
        "index": at_most_one("integer"),
    });
    json!({"name": "_Server", "version": version, "tables": {"Database": {"columns": columns}}})
}

/// The result of a monitor of its database.
pub(super) fn books() -> Value {
    json!([false, "0", {"Book": {UUID: {"initial": {"title": "x"}}}}])
}

impl Server {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db.sock");
        let columns = json!({"title": {"type": "string"}});
        let schema = json!({
            "name": "Library", "version": "1.0.0", "tables": {"Book": {"columns": columns}}
        });
        let served = json!({"name": "Library", "connected": true});
        let databases = json!({"Database": {UUID: {"initial": served}}});
        let answers = [
            ("set_db_change_aware", json!({})),
            ("get_schema Library", schema),
            ("get_schema _Server", server_schema("1.2.0")),
            ("monitor_cond_since _Server", json!([false, "0", databases])),
            ("monitor_cond_since Library", books()),
        ];
        Self {
            listener: UnixListener::bind(&path).unwrap(),
            path,
            answers: answers
                .map(|(method, result)| (method, Answer::Result(result)))
                .into(),
            unasked: Vec::new(),
            hangs_up: false,
            deadline: Duration::from_secs(30),
            since: RefCell::default(),
            _folder: folder,
        }
    }

    pub(super) fn with(mut self, method: &'static str, answer: Answer) -> Self {
        if matches!(answer, Answer::Silence | Answer::After(..)) {
            self.deadline = Duration::from_millis(300);
        }
        self.answers.insert(method, answer);
        self
    }

    pub(super) fn with_unasked(mut self, unasked: impl Into<Vec<u8>>) -> Self {
        self.unasked = unasked.into();
        self
    }

    pub(super) fn hanging_up(mut self) -> Self {
        self.hangs_up = true;
        self
    }

    /// A client that waits for each answer for 300 ms, if one does not come.
    pub(super) fn client(&self) -> Client<Book> {
        let remotes: Remotes = format!("unix:{}", self.path.display()).parse().unwrap();
        let mut options = ClientOptions::new("Library");
        options.session.transport.limits.max_message = 10_000;
        options.session.request_deadline = self.deadline;
        options.session.monitor_deadline = self.deadline;
        options.transact_deadline = self.deadline;
        Client::new(&remotes, options)
    }

    /// Serves until `client` is done.
    pub(super) async fn serve<T>(&self, client: impl Future<Output = T>) -> T {
        let serving = async {
            loop {
                let (stream, _) = self.listener.accept().await.unwrap();
                self.serve_connection(stream).await;
            }
        };
        let within = tokio::time::timeout(Duration::from_secs(30), client);
        tokio::select! {
            done = within => done.expect("it is done in time"),
            () = serving => unreachable!("it serves for ever"),
        }
    }

    async fn serve_connection(&self, mut stream: UnixStream) {
        let mut buffer = Vec::new();
        while let Some(request) = next_message(&mut stream, &mut buffer).await {
            let method = request["method"].as_str().unwrap();
            let database = request["params"][0].as_str().unwrap_or_default();
            let with_database = format!("{method} {database}");
            let reads = with_database == "monitor_cond_since Library";
            if reads {
                let since = request["params"][3].as_str().unwrap().to_owned();
                self.since.borrow_mut().push(since);
            }
            let answers = &self.answers;
            let answer = answers.get(&*with_database).or_else(|| answers.get(method));
            let (id, mut ends) = (&request["id"], reads && self.hangs_up);
            let mut bytes = match answer.unwrap() {
                Answer::Result(result) => reply(id, result),
                Answer::Error(error) => json!({"id": id, "result": null, "error": error})
                    .to_string()
                    .into_bytes(),
                Answer::Bytes(bytes) => bytes.clone(),
                Answer::After(bytes, result) => [bytes.clone(), reply(id, result)].concat(),
                Answer::Last(bytes) => {
                    ends = true;
                    bytes.to_vec()
                }
                Answer::Silence => continue,
            };
            if reads {
                bytes.extend_from_slice(&self.unasked);
            }
            // A client that has enough of it closes the connection.
            if stream.write_all(&bytes).await.is_err() || ends {
                return;
            }
        }
    }
}

fn reply(id: &Value, result: &Value) -> Vec<u8> {
    let reply = json!({"id": id, "result": result, "error": null});
    reply.to_string().into_bytes()
}

/// The next message of a client; `buffer` may have its beginning.
async fn next_message(stream: &mut UnixStream, buffer: &mut Vec<u8>) -> Option<Value> {
    loop {
        let mut messages = serde_json::Deserializer::from_slice(buffer).into_iter();
        if let Some(Ok(message)) = messages.next() {
            let end = messages.byte_offset();
            buffer.drain(..end);
            return Some(message);
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}
