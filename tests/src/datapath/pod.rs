//! A host of the network, whose packets pass the switch.

use std::{
    fs::{self, File},
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::fd::AsFd,
    path::Path,
    process::Command,
    thread,
    time::Duration,
};

use hickory_proto::rr::RecordType;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::runtime::Builder;

use super::commands::inside;
use crate::dns::{Reply, ask};

/// Its end of its link.
pub(super) const LINK: &str = "pod0";

/// The time-out of a connection. A dropped connection fails after this time.
const CONNECT: Duration = Duration::from_millis(500);

/// A host, inside or outside of the cluster. It ends with the [`Datapath`](super::Datapath).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Pod {
    /// The process that holds its network open.
    pub(super) pid: u32,
}

impl Pod {
    /// Accepts connections on this port of all addresses of both families, and closes each at once, until the test ends.
    ///
    /// # Panics
    /// If it cannot listen.
    pub fn serve(self, port: u16) {
        let listener = self
            .enter(move || TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)))
            .expect("a port to listen on");
        // A socket stays in the network in which it was created.
        thread::spawn(move || listener.incoming().for_each(drop));
    }

    /// Sends datagrams to this port of any address back from its own address, until the test ends.
    ///
    /// # Panics
    /// If it cannot listen.
    pub fn echo_from_any_address(self, port: u16) {
        let socket = self.enter(move || UdpSocket::bind((Ipv6Addr::UNSPECIFIED, port)));
        let socket = socket.expect("a port to listen on");
        thread::spawn(move || {
            let mut bytes = [0; 64];
            while let Ok((length, from)) = socket.recv_from(&mut bytes) {
                // The next datagram may still come through.
                let _lost = socket.send_to(&bytes[..length], from);
            }
        });
    }

    /// A datagram socket, for addresses of this family.
    ///
    /// # Errors
    /// If there is none.
    pub fn udp_socket(self, to: IpAddr) -> io::Result<UdpSocket> {
        let any: IpAddr = match to {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        self.enter(|| UdpSocket::bind((any, 0)))
    }

    /// Makes all addresses of a network local to the pod.
    pub fn owns(self, network: &str) {
        self.ip(&format!("route add local {network} dev {LINK}"));
    }

    /// Connects to an address.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] if the packets are dropped.
    pub fn connect(self, to: SocketAddr) -> io::Result<TcpStream> {
        self.connect_within(to, CONNECT)
    }

    /// [`Pod::connect`] with another time-out. The first packet is sent again after a second.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] if the packets are dropped.
    pub fn connect_within(self, to: SocketAddr, patience: Duration) -> io::Result<TcpStream> {
        self.enter(move || TcpStream::connect_timeout(&to, patience))
    }

    /// Sends a DNS server a query for the records of a name.
    ///
    /// # Errors
    /// As [`ask`].
    pub fn look_up(self, server: SocketAddr, name: &str, kind: RecordType) -> io::Result<Reply> {
        self.enter(move || {
            let mut runtime = Builder::new_current_thread();
            let runtime = runtime.enable_all().build()?;
            runtime.block_on(ask(server, name, kind))
        })
    }

    /// Runs a program in the pod's network, whose name server is `dns`. The folder gets a file of its own.
    ///
    /// # Panics
    /// If it cannot run or fails.
    pub fn run(self, dns: SocketAddr, folder: &Path, program: &Path, args: &[String]) {
        self.ip("link set lo up");
        let local = self.enter(|| UdpSocket::bind((Ipv4Addr::LOCALHOST, 53)));
        let sockets = local.and_then(|local| Ok((local, self.udp_socket(dns.ip())?)));
        let (local, remote) = sockets.expect("sockets");
        thread::spawn(move || -> io::Result<()> {
            let mut bytes = [0; 1232];
            loop {
                let (length, client) = local.recv_from(&mut bytes)?;
                remote.send_to(&bytes[..length], dns)?;
                let (length, _) = remote.recv_from(&mut bytes)?;
                local.send_to(&bytes[..length], client)?;
            }
        });
        let resolv = folder.join("resolv.conf");
        fs::write(&resolv, "nameserver 127.0.0.1\n").expect("a file");
        let script = "mount --bind \"$1\" /etc/resolv.conf && shift && exec \"$@\"";
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.pid.to_string(), "--net", "--"]);
        command.args(["unshare", "--mount", "sh", "-c", script, "sh"]);
        command.arg(resolv).arg(program).args(args);
        let output = command.output().expect("nsenter");
        assert!(output.status.success(), "{output:?}");
    }

    /// Runs `ip` with the words of a line in its network.
    pub(super) fn ip(self, line: &str) {
        let words: Vec<_> = line.split(' ').collect();
        inside(self.pid, "ip", &words);
    }

    fn enter<T: Send>(self, call: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        let network = File::open(format!("/proc/{}/ns/net", self.pid))?;
        // A thread of its own, since a thread is in one network only.
        thread::scope(|scope| {
            let called = scope.spawn(|| {
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(network.as_fd(), kind)?;
                call()
            });
            called.join().expect("no panic")
        })
    }
}
