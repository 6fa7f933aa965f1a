//! Passes of scripted revalidators.

use std::sync::{Arc, Mutex};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream},
    task::JoinHandle,
};

use super::*;

/// A control socket on which each command waits for [`Switch::pass`].
struct Switch {
    path: PathBuf,
    waiting: Arc<Mutex<Vec<UnixStream>>>,
    requests: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
    _folder: tempfile::TempDir,
}

impl Switch {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ovs-vswitchd.7.ctl");
        fs::write(folder.path().join(PID_FILE), "7\n").unwrap();
        let listener = UnixListener::bind(&path).unwrap();
        let waiting = Arc::<Mutex<Vec<_>>>::default();
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let (streams, seen) = (Arc::clone(&waiting), Arc::clone(&requests));
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut bytes = vec![0; 1000];
                let length = stream.read(&mut bytes).await.unwrap();
                let text = String::from_utf8(bytes[..length].to_vec()).unwrap();
                seen.lock().unwrap().push(text);
                streams.lock().unwrap().push(stream);
            }
        });
        Self {
            path: folder.path().to_owned(),
            waiting,
            requests,
            task,
            _folder: folder,
        }
    }

    /// Waits until a command waits, and answers it.
    async fn pass(&self, answer: &str) {
        let mut stream = loop {
            let stream = self.waiting.lock().unwrap().pop();
            match stream {
                Some(stream) => break stream,
                None => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        };
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

const DONE: &str = r#"{"id":1,"error":null,"result":""}"#;

#[tokio::test]
async fn a_short_pass_around_the_rules_is_enough_and_nothing_else_is_sent() {
    let switch = Switch::start();
    let revalidators = Revalidators::new(switch.path.clone());
    let passes = revalidators.watch();
    switch.pass(DONE).await;
    // It ends before the rules are known to be in, or with them.
    let rules = Instant::now() + Duration::from_secs(60);
    assert_eq!(passes.since(rules).await, Ok(rules));
    let requests: Vec<String> = switch.requests.lock().unwrap().clone();
    let [request] = requests.as_slice() else {
        panic!("{requests:?}");
    };
    let request: serde_json::Value = serde_json::from_str(request).unwrap();
    let method = serde_json::json!("revalidator/wait");
    assert_eq!(
        (&request["method"], &request["params"]),
        (&method, &serde_json::json!([]))
    );
}

#[tokio::test]
async fn after_a_long_pass_that_may_have_begun_earlier_the_next_one_counts() {
    let switch = Switch::start();
    let revalidators = Revalidators::new(switch.path.clone());
    let passes = revalidators.watch();
    let rules = Instant::now();
    let since = tokio::spawn(passes.since(rules));
    tokio::time::sleep(2 * SHORT).await;
    switch.pass(DONE).await;
    let first = Instant::now();
    tokio::time::sleep(SHORT).await;
    assert!(!since.is_finished());
    switch.pass(DONE).await;
    assert!(since.await.unwrap().unwrap() > first);
}

#[tokio::test]
async fn a_switch_that_cannot_be_asked_is_said_and_forgotten_when_it_answers() {
    let switch = Switch::start();
    let revalidators = Revalidators::new(switch.path.clone());
    let passes = revalidators.watch();
    switch
        .pass(r#"{"id":1,"error":"\"revalidator/wait\" is not a valid command","result":null}"#)
        .await;
    let error = passes.since(Instant::now()).await.unwrap_err();
    assert!(error.contains("not a valid command"), "{error}");
    let passes = revalidators.watch();
    switch.pass(DONE).await;
    let rules = Instant::now() + Duration::from_secs(60);
    assert_eq!(passes.since(rules).await, Ok(rules));

    let nowhere = Revalidators::new(switch.path.join("nowhere"));
    let error = nowhere.watch().since(Instant::now()).await.unwrap_err();
    assert!(error.contains("nowhere"), "{error}");
}
