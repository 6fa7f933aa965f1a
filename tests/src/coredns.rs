//! A stock CoreDNS with a `dnstap` line: as scripts/setup builds it, or the program that `COREDNS_PROGRAM` names.

use std::{
    env, fs, iter,
    net::{SocketAddr, TcpListener, UdpSocket},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use hickory_proto::rr::RecordType;

use crate::{
    dns::{Reply, ask},
    network::Network,
    process::Process,
    programs,
    wait::eventually,
};

#[derive(Debug)]
pub struct CoreDns {
    process: Process,
    folder: PathBuf,
    address: SocketAddr,
    enter: Vec<String>,
}

impl CoreDns {
    /// Starts CoreDNS with the `Corefile` in the folder, and returns when it answers. The Corefile gets its port as
    /// `{$DNS_PORT}`, and the collector's socket, `dnstap.sock` of the folder, as `{$DNSTAP_SOCKET}`. CoreDNS trusts
    /// the authority in `ca.pem` of the folder, if there is one.
    pub async fn start(folder: &Path) -> Self {
        // Another program may take the port between the check and its use.
        for _ in 0..5 {
            if let Some(server) = Self::start_on(folder, free_port(), Vec::new()).await {
                return server;
            }
        }
        panic!("CoreDNS does not start; its log is in {}", folder.display());
    }

    /// [`CoreDns::start`] on a port that must be known before.
    pub async fn start_at(folder: &Path, address: SocketAddr) -> Self {
        let started = Self::start_on(folder, address, Vec::new()).await;
        started.unwrap_or_else(|| {
            panic!(
                "CoreDNS does not start on {address}; its log is in {}",
                folder.display()
            )
        })
    }

    /// [`CoreDns::start`] in a separate network.
    pub async fn start_in(folder: &Path, network: &Network) -> Self {
        let address = Self::address_in(network);
        let started = Self::start_on(folder, address, network.enter()).await;
        started
            .unwrap_or_else(|| panic!("CoreDNS does not start; its log is in {}", folder.display()))
    }

    /// The address of [`CoreDns::start_in`].
    pub fn address_in(network: &Network) -> SocketAddr {
        SocketAddr::new(network.inside(), 5353)
    }

    /// Starts it again on the same port, after it has ended.
    pub async fn restart(&mut self) {
        self.process.kill();
        // Another program may use the port for a moment, as a source port.
        for _ in 0..5 {
            if let Some(server) =
                Self::start_on(&self.folder, self.address, self.enter.clone()).await
            {
                *self = server;
                return;
            }
        }
        panic!("CoreDNS does not start again on {}", self.address);
    }

    async fn start_on(folder: &Path, address: SocketAddr, enter: Vec<String>) -> Option<Self> {
        let mut environment = vec![
            ("DNS_PORT", address.port().to_string()),
            (
                "DNSTAP_SOCKET",
                folder.join("dnstap.sock").display().to_string(),
            ),
        ];
        let authority = folder.join("ca.pem");
        if authority.exists() {
            environment.push(("SSL_CERT_FILE", authority.display().to_string()));
        }
        // scripts/soak has tests run with the versions of platforms.
        let program = env::var("COREDNS_PROGRAM")
            .unwrap_or_else(|_| programs::tool("coredns").display().to_string());
        // Blocks without a port use it too: another server may have port 53.
        let port = address.port().to_string();
        let own = ["-conf", "Corefile", "-dns.port", &port].map(str::to_owned);
        let own = iter::once(program).chain(own);
        let mut words = enter.iter().cloned().chain(own);
        let program = words.next().unwrap_or_default();
        let process = Process::start(folder, "coredns", Path::new(&program), words, &environment);
        let mut server = Self {
            process,
            folder: folder.to_owned(),
            address,
            enter,
        };
        let answers = eventually("CoreDNS answers", async || {
            if server.process.ended().is_some() {
                return Ok(false);
            }
            // Any reply is enough, also a refusal.
            let reply = ask(address, "ready.invalid.", RecordType::TXT).await;
            reply.map(|_| true).map_err(|error| error.to_string())
        });
        answers.await.then_some(server)
    }

    /// Its address, for UDP and TCP.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Sends a query, again if a datagram is lost.
    pub async fn ask(&self, name: &str, kind: RecordType) -> Reply {
        eventually(&format!("a reply for {name}"), async || {
            let reply = ask(self.address, name, kind).await;
            reply.map_err(|error| error.to_string())
        })
        .await
    }

    /// Queries IPv4 and IPv6 addresses, as most programs do.
    pub async fn look_up(&self, name: &str) -> [Reply; 2] {
        [
            self.ask(name, RecordType::A).await,
            self.ask(name, RecordType::AAAA).await,
        ]
    }
}

/// Writes a zone file; CoreDNS's `file` plugin loads it when the serial has grown.
pub fn write_zone(path: &Path, origin: &str, serial: u32, records: &str) {
    let text = format!(
        "$ORIGIN {origin}\n$TTL 300\n@ IN SOA ns hostmaster {serial} 3600 600 86400 5\n@ IN NS ns\nns IN A 192.0.2.1\n{records}\n"
    );
    // Renamed into place: CoreDNS may read it at any time.
    let new = path.with_extension("new");
    fs::write(&new, text).expect("a zone file");
    fs::rename(new, path).expect("a zone file in its place");
}

/// A free port of 127.0.0.1 for UDP and TCP. It is outside the range of ephemeral ports, so that no client takes it
/// before its use.
pub fn free_port() -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    const LOWEST: u32 = 10_000;
    let given = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    let given = given.expect("the ports that the system gives");
    let lowest_given = given.split_whitespace().next();
    let end: u32 = lowest_given
        .and_then(|port| port.parse().ok())
        .expect("a port");
    // Concurrent test programs begin at different ones.
    let first = std::process::id().wrapping_mul(1009);
    for _ in 0..1000 {
        let number = first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = LOWEST + number % end.saturating_sub(LOWEST).max(1);
        let address = SocketAddr::from(([127, 0, 0, 1], u16::try_from(port).expect("a port")));
        if UdpSocket::bind(address).is_ok() && TcpListener::bind(address).is_ok() {
            return address;
        }
    }
    panic!("no port is free for both UDP and TCP");
}
