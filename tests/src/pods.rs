//! Pods as clients of DNS servers: each has an address and a network namespace of its own.

use std::{
    fs::File,
    io::{self, Read, Write},
    iter::zip,
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket as StdUdpSocket},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};

use hickory_proto::rr::RecordType;
use rustix::{
    fd::AsFd,
    thread::{LinkNameSpaceType, move_into_link_name_space},
};
use tokio::{
    net::UdpSocket,
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval_at, sleep},
};

use crate::{
    dns::{Reply, ask_over},
    network::Network,
    wait::PATIENCE,
};

/// The network of all pods, in a Node's `spec.podCIDR`.
pub const POD_NETWORK: &str = "10.244.0.0/16";

/// The Node's own address in it.
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 244, 0, 1);

/// The interface inside of a pod.
const INSIDE: &str = "eth0";

/// The maximum number of pending queries of a pod: each has a socket.
const UNDER_WAY: usize = 16;

/// The pause after a query that failed at once.
const PAUSE: Duration = Duration::from_millis(50);

/// A pod. Its network namespace lasts as long as its sockets.
#[derive(Clone, Debug)]
pub struct Pod {
    /// The source address of its queries.
    pub address: IpAddr,
    sockets: Arc<[UdpSocket]>,
}

impl Pod {
    /// Creates pods that query this DNS server in the network. The first has the address with this number in the pod
    /// network.
    pub async fn make(network: &Network, server: SocketAddr, first: u32, count: u32) -> Vec<Self> {
        let pid = network.pid();
        let make = move || make_all(pid, server, first, count);
        let made = tokio::task::spawn_blocking(make).await;
        let made = made.expect("no panic").expect("pods");
        let pods = made.into_iter().map(|(address, sockets)| Self {
            address: address.into(),
            sockets: sockets
                .into_iter()
                .map(|socket| UdpSocket::from_std(socket).expect("a socket"))
                .collect(),
        });
        pods.collect()
    }

    /// Sends a query, again if a datagram is lost.
    pub async fn ask(&self, name: &str, kind: RecordType) -> Reply {
        self.ask_by(0, name, kind).await
    }

    /// Sends queries for all these names, some in parallel, each until it is answered.
    pub async fn ask_all(&self, names: impl IntoIterator<Item = String>, kind: RecordType) {
        let names: Vec<String> = names.into_iter().collect();
        let names = Arc::new(Mutex::new(names.into_iter()));
        let mut tasks = JoinSet::new();
        for number in 0..UNDER_WAY {
            let (pod, names) = (self.clone(), Arc::clone(&names));
            let next = move || names.lock().unwrap_or_else(PoisonError::into_inner).next();
            tasks.spawn(async move {
                while let Some(name) = next() {
                    pod.ask_by(number, &name, kind).await;
                }
            });
        }
        tasks.join_all().await;
    }

    async fn ask_by(&self, number: usize, name: &str, kind: RecordType) -> Reply {
        let end = Instant::now() + PATIENCE;
        loop {
            match ask_over(&self.sockets[number], name, kind).await {
                Ok(reply) => return reply,
                Err(error) if Instant::now() >= end => panic!("no reply for {name}: {error}"),
                // CoreDNS may be restarting.
                Err(_) => sleep(PAUSE).await,
            }
        }
    }
}

/// A pod that queries IPv4 addresses at a steady rate, until this is dropped.
#[derive(Debug)]
pub struct Load {
    answers: Arc<AtomicU32>,
    _tasks: JoinSet<()>,
}

impl Load {
    /// Sends at most this many queries a second; `name` gives the name of each from its number. The pod sends no other
    /// queries meanwhile.
    pub fn start(
        pod: &Pod,
        per_second: u32,
        name: impl Fn(u32) -> String + Clone + Send + 'static,
    ) -> Self {
        let answers = Arc::<AtomicU32>::default();
        let mut tasks = JoinSet::new();
        let clients = UNDER_WAY as u32;
        let pause = Duration::from_secs(1) / per_second;
        for client in 0..clients {
            let (pod, name, answers) = (pod.clone(), name.clone(), Arc::clone(&answers));
            tasks.spawn(async move {
                let mut pace = interval_at(Instant::now() + pause * client, pause * clients);
                pace.set_missed_tick_behavior(MissedTickBehavior::Skip);
                for number in (client..).step_by(UNDER_WAY) {
                    pace.tick().await;
                    let socket = &pod.sockets[client as usize];
                    let reply = ask_over(socket, &name(number), RecordType::A).await;
                    answers.fetch_add(u32::from(reply.is_ok()), Ordering::Relaxed);
                }
            });
        }
        Self {
            answers,
            _tasks: tasks,
        }
    }

    /// The number of answers so far.
    pub fn answers(&self) -> u32 {
        self.answers.load(Ordering::Relaxed)
    }
}

type Made = (Ipv4Addr, Vec<StdUdpSocket>);

/// A network namespace, and the process that holds it open.
struct Namespace {
    holder: Child,
    file: File,
}

impl Namespace {
    fn make() -> io::Result<Self> {
        let mut holder = Command::new("unshare")
            .args(["--net", "--", "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        // An answer shows that the process is inside.
        let (stdin, stdout) = (holder.stdin.as_mut(), holder.stdout.as_mut());
        stdin.expect("a pipe").write_all(b"\n")?;
        stdout.expect("a pipe").read_exact(&mut [0])?;
        let file = File::open(format!("/proc/{}/ns/net", holder.id()))?;
        Ok(Self { holder, file })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // An error means that it has ended.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

fn make_all(node: u32, server: SocketAddr, first: u32, count: u32) -> io::Result<Vec<Made>> {
    let addresses = (first..first + count).map(|number| {
        // The gateway has the first.
        Ipv4Addr::from_bits(GATEWAY.to_bits() + 1 + number)
    });
    let addresses: Vec<Ipv4Addr> = addresses.collect();
    let namespaces = addresses.iter().map(|_| Namespace::make());
    let namespaces = namespaces.collect::<io::Result<Vec<_>>>()?;
    let mut commands = String::new();
    for (namespace, address) in zip(&namespaces, &addresses) {
        let (pid, link) = (namespace.holder.id(), format!("pod{}", address.to_bits()));
        commands += &format!("link add {link} type veth peer name {INSIDE} netns {pid}\n");
        commands += &format!("addr add {GATEWAY} peer {address} dev {link}\n");
        commands += &format!("link set {link} up\n");
    }
    let node = File::open(format!("/proc/{node}/ns/net"))?;
    inside(&node, || ip(&commands))?;
    let sockets = |(namespace, address): (&Namespace, &Ipv4Addr)| {
        let commands = format!(
            "addr add {address} peer {GATEWAY} dev {INSIDE}\nlink set {INSIDE} up\nroute add default via {GATEWAY}\n"
        );
        let sockets = inside(&namespace.file, || {
            ip(&commands)?;
            let socket = || {
                let socket = StdUdpSocket::bind((*address, 0))?;
                socket.connect(server)?;
                socket.set_nonblocking(true)?;
                Ok(socket)
            };
            (0..UNDER_WAY).map(|_| socket()).collect()
        });
        Ok((*address, sockets?))
    };
    zip(&namespaces, &addresses).map(sockets).collect()
}

/// Runs a function on a thread in this network namespace. Sockets stay in it.
fn inside<T: Send>(namespace: &File, act: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    let run = || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        act()
    };
    thread::scope(|scope| scope.spawn(run).join().expect("no panic"))
}

/// Runs commands of `ip` in the network namespace of this thread.
fn ip(commands: &str) -> io::Result<()> {
    let mut ip = Command::new(Path::new("ip"))
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    ip.stdin
        .take()
        .expect("a pipe")
        .write_all(commands.as_bytes())?;
    let output = ip.wait_with_output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("{commands}: {error}"))),
    }
}
