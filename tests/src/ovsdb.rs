//! An OVSDB client (RFC 7047) that sends one transaction at a time and waits for its result.

use std::{
    io::{BufReader, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use serde_json::{Deserializer, StreamDeserializer, Value, de::IoRead, json};

/// The time-out of an answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A connection to the northbound database.
pub struct Client {
    requests: UnixStream,
    /// Messages follow each other without a delimiter.
    replies: StreamDeserializer<'static, IoRead<BufReader<UnixStream>>, Value>,
    last_id: u64,
}

impl Client {
    /// Connects to the server of the database in the folder.
    ///
    /// # Errors
    /// The server does not run.
    pub fn connect(folder: &Path) -> Result<Self, String> {
        let stream = UnixStream::connect(folder.join("nb.sock")).map_err(in_words)?;
        stream.set_read_timeout(Some(TIMEOUT)).map_err(in_words)?;
        let reader = BufReader::new(stream.try_clone().map_err(in_words)?);
        Ok(Self {
            requests: stream,
            replies: Deserializer::from_reader(reader).into_iter(),
            last_id: 0,
        })
    }

    /// Carries operations out in one transaction, and returns the result of each.
    ///
    /// # Errors
    /// The reason why the transaction had no effect. After a broken connection every transaction fails.
    pub fn transact(&mut self, operations: Vec<Value>) -> Result<Vec<Value>, String> {
        let database = std::iter::once(json!("OVN_Northbound"));
        let params = database.chain(operations).collect();
        let Value::Array(results) = self.call("transact", params)? else {
            return Err("no list of results".to_owned());
        };
        match results.iter().find(|result| !result["error"].is_null()) {
            Some(refused) => Err(refused.to_string()),
            None => Ok(results),
        }
    }

    /// Calls any method, and returns its result.
    ///
    /// # Errors
    /// The server's error. After a broken connection every call fails.
    pub fn call(&mut self, method: &str, params: Value) -> Result<Value, String> {
        self.last_id += 1;
        let request = json!({"id": self.last_id, "method": method, "params": params});
        self.requests
            .write_all(request.to_string().as_bytes())
            .map_err(in_words)?;
        // The server sends no requests on a unix socket, so every message is a reply.
        let mut reply = self.replies.next().ok_or("the server closed")?;
        let reply = reply.as_mut().map_err(|error| error.to_string())?;
        if reply["error"].is_null() {
            Ok(reply["result"].take())
        } else {
            Err(reply["error"].to_string())
        }
    }
}

fn in_words(error: std::io::Error) -> String {
    error.to_string()
}
