//! Two collectors, of which one forwards, while the other ends, hangs or comes back.

use tests::hold::Load;
use tokio::net::TcpStream;

use super::*;

const SOCKET: &str = "second.sock";

/// Two collectors on one store; CoreDNS asks one after the other, and then the upstream itself.
pub(super) struct Pair {
    coredns: CoreDns,
    pub(super) collectors: [Program; 2],
    addresses: [SocketAddr; 2],
    pub(super) upstream: Scripted,
    /// The server that CoreDNS asks without a collector.
    _last: Scripted,
    _workdir: Workdir,
}

impl Pair {
    pub(super) async fn start() -> Self {
        Self::start_with(Scripted::start(numbered).await).await
    }

    /// With this upstream of the collectors.
    pub(super) async fn start_with(upstream: Scripted) -> Self {
        let (workdir, last) = (Workdir::new(), Scripted::start(numbered).await);
        let store = Store::new(workdir.join("store"));
        store.allow("team", &[WILDCARD]);
        let addresses = [free_port(), free_port()];
        let first = hold_flag(addresses[0], upstream.address);
        let first = start_collector(&workdir, &store, &[&first]).await;
        listens(&first, true).await;
        let listen = format!("--listen=unix://{}", workdir.join(SOCKET).display());
        let flags = [
            format!("--store={}", store.address()),
            listen,
            hold_flag(addresses[1], upstream.address),
        ];
        let second = Program::start(workdir.path(), "collector", flags.into()).await;
        second.ready().await;
        write_corefile(&workdir, &[addresses[0], addresses[1], last.address]);
        let coredns = CoreDns::start(workdir.path()).await;
        Self {
            coredns,
            collectors: [first, second],
            addresses,
            upstream,
            _last: last,
            _workdir: workdir,
        }
    }

    /// Known names and, one in ten, new ones.
    pub(super) fn load(&self, rate: u32) -> Load {
        Load::start(self.coredns.address(), rate, |number| match number % 10 {
            0 => format!("n{}.up.test.", number / 10 % 250),
            other => format!("n{other}.x{}.elsewhere.test.", number / 10 % 1000),
        })
    }
}

#[tokio::test]
async fn standby_does_not_listen_until_it_leads() {
    let mut pair = Pair::start().await;
    let [first, second] = pair.addresses;
    TcpStream::connect(first).await.unwrap();
    let refused = TcpStream::connect(second).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    assert!(ask(second, "n1.up.test.", RecordType::A).await.is_err());
    pair.collectors[0].process().kill();
    listens(&pair.collectors[1], true).await;
    ask(second, "n1.up.test.", RecordType::A).await.unwrap();
    assert!(ask(first, "n1.up.test.", RecordType::A).await.is_err());
}
