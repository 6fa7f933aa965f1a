//! The lines of both programs at `/watch`.

use std::{
    io::{BufRead, BufReader, Write},
    net::Ipv4Addr,
    os::unix::net::UnixStream,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use crate::wait::eventually;

/// The lines so far.
#[derive(Clone, Default)]
pub(super) struct Events(Arc<Mutex<Vec<Value>>>);

/// The times of an address that comes, in milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Came {
    pub(super) answered: i64,
    pub(super) read: i64,
    pub(super) changed: Changed,
}

/// The times of a changed status.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Changed {
    /// The store acknowledged it.
    pub(super) status: i64,
    /// The ovn-writer handled it.
    pub(super) object: i64,
    /// The northbound database acknowledged the row.
    pub(super) row: i64,
    /// The rules are in.
    pub(super) rules: i64,
}

impl Events {
    /// Reads those of a program, until it ends.
    ///
    /// # Panics
    /// If it cannot be reached.
    pub(super) async fn read(&self, socket: &Path) {
        let before = self.count();
        let mut stream = UnixStream::connect(socket).expect("the program listens");
        // Without chunks, as HTTP/1.0 has none.
        let request = b"GET /watch HTTP/1.0\r\nHost: localhost\r\n\r\n";
        stream.write_all(request).expect("it reads");
        let events = self.clone();
        thread::spawn(move || {
            // The header has no JSON.
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                if let Ok(line) = serde_json::from_str(&line) {
                    events.lock().push(line);
                }
            }
        });
        eventually("the program tells its state", async || {
            let has_begun = self.count() > before;
            has_begun
                .then_some(())
                .ok_or_else(|| "nothing yet".to_owned())
        })
        .await;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Value>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self) -> usize {
        self.lock().len()
    }

    /// Forgets all lines. No change may be under way.
    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    /// The times of an address of a name that was asked. `None` if the ovn-writer followed another change just before, or
    /// OVN was late.
    ///
    /// # Errors
    /// The part that is missing yet.
    pub(super) fn came(&self, name: &str, address: Ipv4Addr) -> Result<Option<Came>, String> {
        let lines = self.lock();
        let address = address.to_string();
        let mut answers = of_kind(&lines, "answer");
        let answer = answers
            .find(|it| it["name"] == name && has(&it["addresses"], &address))
            .ok_or("no answer")?;
        let answered = time(&answer["answeredAt"]).ok_or("a look-up of the collector was first")?;
        let read = time(&answer["readAt"]).ok_or("the answer was not read")?;
        let changed = changed(&lines, name, &address, ["addresses", "added"])?;
        Ok(changed.map(|changed| Came {
            answered,
            read,
            changed,
        }))
    }

    /// The times of an address that went. `None` as for [`Events::came`].
    ///
    /// # Errors
    /// The part that is missing yet.
    pub(super) fn went(&self, name: &str, address: Ipv4Addr) -> Result<Option<Changed>, String> {
        let lines = self.lock();
        changed(&lines, name, &address.to_string(), ["removed", "removed"])
    }
}

/// The times of a change of this address, by the lists of the status and of the set.
fn changed(
    lines: &[Value],
    name: &str,
    address: &str,
    [of_status, of_set]: [&str; 2],
) -> Result<Option<Changed>, String> {
    let is_of = |it: &Value| it["name"] == name && it["address"] == address;
    let list = |it: &Value| {
        it[of_status]
            .as_array()
            .is_some_and(|it| it.iter().any(is_of))
    };
    let status = of_kind(lines, "status").find(|it| list(it));
    let status = status.ok_or("no status")?;
    let mut sets = of_kind(lines, "set");
    let set = sets.find(|it| it["name"] == status["rule"] && has(&it[of_set], address));
    let set = set.ok_or("no row")?;
    let Some(follow_up) = set["followUp"].as_u64() else {
        return Ok(None);
    };
    let realized = of_kind(lines, "realized").find(|it| it["followUp"] == follow_up);
    let realized = realized.ok_or("no rules")?;
    let Some(rules) = time(&realized["rulesAt"]) else {
        return Ok(None);
    };
    let part = |it: &Value, what: &str| time(it).ok_or_else(|| format!("no {what}: {set}"));
    let changed = Changed {
        status: part(&status["acknowledgedAt"], "acknowledgement of the status")?,
        object: part(&set["seenAt"], "event of the object")?,
        row: part(&set["acknowledgedAt"], "acknowledgement of the row")?,
        rules,
    };
    Ok(Some(changed))
}

fn of_kind<'a>(lines: &'a [Value], kind: &str) -> impl Iterator<Item = &'a Value> {
    lines.iter().filter(move |line| line["kind"] == kind)
}

fn has(list: &Value, address: &str) -> bool {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(Value::as_str).any(|it| it == address)
}

/// A time in RFC 3339 form, in milliseconds.
pub(super) fn time(value: &Value) -> Option<i64> {
    let at: Timestamp = value.as_str()?.parse().ok()?;
    Some(at.as_millisecond())
}
