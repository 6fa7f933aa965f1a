//! Look-ups against scripted servers. Limits are long where a test expects no time-out, and short
//! where it does.

mod answers;
mod limits;

use std::{collections::BTreeMap, net::SocketAddr};

use ::tests::upstream::{Asked, Say, Scripted, Speech, name};
use hickory_proto::op::ResponseCode;
use proto::api::DnsName;
use tokio::{task::JoinHandle, time::timeout};

use super::*;
use names::{Failure, FamilyOutcome};

/// For events that must come.
const DEADLINE: Duration = Duration::from_secs(30);

const A: &str = "192.0.2.1";
const AAAA: &str = "2001:db8::1";

fn patient() -> Config {
    Config {
        resend: Duration::from_secs(10),
        silence: Duration::from_secs(10),
        timeout: Duration::from_secs(20),
        remaining_wait: Duration::from_secs(15),
        total: DEADLINE,
        ..Config::default()
    }
}

fn hasty() -> Config {
    Config {
        resend: Duration::from_millis(200),
        silence: Duration::from_millis(200),
        timeout: Duration::from_millis(400),
        remaining_wait: Duration::from_millis(300),
        total: Duration::from_millis(1000),
        ..Config::default()
    }
}

fn request(name: &str, known: usize) -> Request {
    Request {
        name: DnsName::parse(name).unwrap(),
        known,
        due: Clock::system().now(),
        is_patient: true,
    }
}

struct Resolving {
    requests: mpsc::Sender<Request>,
    results: mpsc::Receiver<LookupResult>,
    servers: watch::Sender<Servers>,
    shutdown: CancellationToken,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Resolving {
    fn start(config: Config, servers: &[SocketAddr]) -> Self {
        let (request_sender, requests) = mpsc::channel(1000);
        let (result_sender, results) = mpsc::channel(1000);
        let (server_sender, servers) = watch::channel(servers.into());
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(run(
            config,
            servers,
            requests,
            result_sender,
            Clock::system(),
            OwnQueries::default(),
            shutdown.clone(),
        ));
        Self {
            requests: request_sender,
            results,
            servers: server_sender,
            shutdown,
            task,
        }
    }

    async fn result(&mut self) -> LookupResult {
        timeout(DEADLINE, self.results.recv())
            .await
            .expect("no result came")
            .expect("the task ended")
    }

    async fn look_up(&mut self, name: &str, known: usize) -> LookupResult {
        self.requests.send(request(name, known)).await.unwrap();
        let result = self.result().await;
        assert_eq!(result.name.as_str(), format!("{name}."));
        result
    }

    async fn end(self) {
        self.shutdown.cancel();
        timeout(DEADLINE, self.task)
            .await
            .unwrap()
            .unwrap()
            .unwrap();
    }
}

/// One look-up of `www.example.com` without known addresses.
async fn look_up(config: Config, servers: &[SocketAddr]) -> LookupResult {
    let mut resolving = Resolving::start(config, servers);
    let result = resolving.look_up("www.example.com", 0).await;
    resolving.end().await;
    result
}

fn found(outcome: &FamilyOutcome) -> Vec<(String, u32)> {
    let FamilyOutcome::Addresses { addresses, .. } = outcome else {
        panic!("no addresses: {outcome:?}")
    };
    addresses
        .iter()
        .map(|(address, ttl)| (address.to_string(), *ttl))
        .collect()
}

fn is_complete(outcome: &FamilyOutcome) -> bool {
    matches!(
        outcome,
        FamilyOutcome::Addresses { complete: true, .. } | FamilyOutcome::NoData
    )
}

/// A server with one address of each family, with a TTL of 30 s.
async fn good() -> Scripted {
    Scripted::start(|asked| asked.addresses(&[A, AAAA], 30).say()).await
}

async fn saying(code: ResponseCode) -> Scripted {
    Scripted::start(move |asked| asked.reply(code).say()).await
}

async fn black_hole() -> Scripted {
    Scripted::start(|_| Vec::new()).await
}
