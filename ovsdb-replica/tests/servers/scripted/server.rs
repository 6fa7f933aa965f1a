//! A server with one database of one table with one row.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    path::PathBuf,
    time::Duration,
};

use ovsdb_replica::{Client, ClientOptions, Remotes, SessionOptions, TransportOptions};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream},
    sync::Notify,
};

/// The server disconnects after this many answered echoes.
pub(super) const ECHOES: usize = 100;

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
    /// Scripted answers to methods, in place of the correct ones.
    answers: BTreeMap<&'static str, Answer>,
    /// Answered echoes.
    pub(super) echoes: Cell<usize>,
    /// Echoes that the client asked for.
    pub(super) probes: Cell<usize>,
    /// Whether it disconnects after its unsolicited messages.
    hangs_up: bool,
    /// Bytes of endless answers that the client read.
    pub(super) taken: Cell<usize>,
    /// The transactions since which a client requested changes.
    pub(super) since: RefCell<Vec<String>>,
    /// All unsolicited messages were sent.
    pub(super) said: Notify,
    _folder: TempDir,
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
        "sid": at_most_one("uuid"),
        "index": at_most_one("integer"),
    });
    json!({"name": "_Server", "version": version, "tables": {"Database": {"columns": columns}}})
}

#[derive(Clone)]
pub(super) enum Answer {
    /// The result of the request.
    Result(Value),
    /// The error of the request.
    Error(Value),
    /// These bytes, instead of a reply.
    Bytes(Vec<u8>),
    /// These bytes, and then the end of the connection.
    Last(Vec<u8>),
    /// These bytes once, and then the last of them repeatedly, for as long as the client reads them.
    Endless(Vec<u8>),
    /// No answer.
    Silence,
}

impl Server {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let columns = json!({"title": {"type": "string"}});
        let schema = json!({
            "name": "Library", "version": "1.0.0", "tables": {"Book": {"columns": columns}}
        });
        let served = json!({"name": "Library", "connected": true});
        let databases = json!({"Database": {UUID: {"initial": served}}});
        let books = json!({"Book": {UUID: {"initial": {"title": "x"}}}});
        let answers = BTreeMap::from([
            ("set_db_change_aware", Answer::Result(json!({}))),
            ("get_schema", Answer::Result(schema)),
            ("get_schema _Server", Answer::Result(server_schema("1.2.0"))),
            (
                "monitor_cond_since _Server",
                Answer::Result(json!([false, "0", databases])),
            ),
            (
                "monitor_cond_since Library",
                Answer::Result(json!([false, "0", books])),
            ),
            ("transact", Answer::Result(json!([{"count": 1}]))),
        ]);
        Self {
            listener,
            path,
            answers,
            echoes: Cell::new(0),
            probes: Cell::new(0),
            hangs_up: false,
            taken: Cell::new(0),
            since: RefCell::default(),
            said: Notify::new(),
            _folder: folder,
        }
    }

    pub(super) fn with(mut self, method: &'static str, answer: Answer) -> Self {
        self.answers.insert(method, answer);
        self
    }

    pub(super) fn hanging_up(mut self) -> Self {
        self.hangs_up = true;
        self
    }

    /// A client that waits 300 ms for each answer.
    pub(super) fn client(&self) -> Client<Book> {
        self.client_within(Duration::from_millis(300))
    }

    pub(super) fn client_within(&self, deadline: Duration) -> Client<Book> {
        let remotes: Remotes = format!("unix:{}", self.path.display()).parse().unwrap();
        let mut transport = TransportOptions::default();
        transport.limits.max_message = 10_000;
        let mut options = ClientOptions::new("Library");
        options.transact_deadline = deadline;
        options.session = SessionOptions {
            transport,
            request_deadline: deadline,
            monitor_deadline: deadline,
        };
        Client::new(&remotes, options)
    }

    /// Serves one connection until its end, and sends `unasked` once the database was read.
    pub(super) async fn serve(&self, unasked: &[u8]) {
        let (mut stream, _) = self.listener.accept().await.unwrap();
        let mut buffer = Vec::new();
        while let Some(request) = next_message(&mut stream, &mut buffer).await {
            let Some(method) = request["method"].as_str() else {
                assert_eq!(request, json!({"id": "echo", "result": [], "error": null}));
                self.echoes.set(self.echoes.get() + 1);
                if self.echoes.get() == ECHOES {
                    return;
                }
                continue;
            };
            if method == "echo" {
                self.probes.set(self.probes.get() + 1);
            }
            let with_database = format!("{method} {}", request["params"][0].as_str().unwrap_or(""));
            let answer = self
                .answers
                .get(&*with_database)
                .or_else(|| self.answers.get(method))
                .cloned();
            if with_database == "monitor_cond_since Library" {
                let since = request["params"][3].as_str().unwrap().to_owned();
                self.since.borrow_mut().push(since);
            }
            let id = &request["id"];
            let reply = match answer.unwrap_or(Answer::Error(json!("unknown method"))) {
                Answer::Result(result) => json!({"id": id, "result": result, "error": null}),
                Answer::Error(error) => json!({"id": id, "result": null, "error": error}),
                Answer::Bytes(bytes) => {
                    let _closed = stream.write_all(&bytes).await;
                    continue;
                }
                Answer::Last(bytes) => {
                    let _closed = stream.write_all(&bytes).await;
                    return;
                }
                Answer::Endless(bytes) => {
                    let _closed = stream.write_all(&bytes).await;
                    let more = vec![bytes.last().copied().unwrap(); 64 << 10];
                    while stream.write_all(&more).await.is_ok() {
                        self.taken.set(self.taken.get() + more.len());
                    }
                    return;
                }
                Answer::Silence => continue,
            };
            let _closed = stream.write_all(reply.to_string().as_bytes()).await;
            if with_database.starts_with("monitor_cond") && with_database.ends_with("Library") {
                let _closed = stream.write_all(unasked).await;
                self.said.notify_one();
                if self.hangs_up {
                    return;
                }
            }
        }
    }
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
