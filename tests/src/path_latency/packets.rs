//! The packets of the pod: one a millisecond to an address, each with its number. The server outside sends them back.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use super::fixture::PORT;
use crate::datapath::Pod;

const INTERVAL: Duration = Duration::from_millis(1);

/// After this time without a packet that passes, the measurement fails.
const LONGEST: Duration = Duration::from_secs(20);

/// A sent packet, in milliseconds since the Unix epoch.
struct Sent {
    at: i64,
    has_passed: bool,
}

/// Packets to an address.
struct Packets {
    socket: UdpSocket,
    to: SocketAddr,
    sent: Vec<Sent>,
}

impl Packets {
    fn prepare(pod: Pod, to: Ipv4Addr) -> io::Result<Self> {
        let socket = pod.udp_socket(IpAddr::V4(to))?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            to: (to, PORT).into(),
            sent: Vec::new(),
        })
    }

    fn send(&mut self) -> io::Result<()> {
        let number = u32::try_from(self.sent.len()).map_err(io::Error::other)?;
        self.sent.push(Sent {
            at: now(),
            has_passed: false,
        });
        self.socket.send_to(&number.to_be_bytes(), self.to)?;
        Ok(())
    }

    /// Takes note of the packets that came back. The server's own address differs from the packets' destination.
    fn receive(&mut self) {
        let mut number = [0; 4];
        while let Ok((4, _)) = self.socket.recv_from(&mut number) {
            let number = u32::from_be_bytes(number) as usize;
            if let Some(sent) = self.sent.get_mut(number) {
                sent.has_passed = true;
            }
        }
    }
}

/// Sends packets from now on, and returns when the first one that passed was sent.
///
/// # Errors
/// No packet passes.
pub(super) fn first_that_passes(pod: Pod, to: Ipv4Addr) -> io::Result<i64> {
    let (mut packets, began) = (Packets::prepare(pod, to)?, Instant::now());
    while began.elapsed() < LONGEST {
        packets.send()?;
        thread::sleep(INTERVAL);
        packets.receive();
        if let Some(first) = packets.sent.iter().find(|sent| sent.has_passed) {
            return Ok(first.at);
        }
    }
    Err(io::Error::other(format!("no packet to {to} passes")))
}

/// Milliseconds since the Unix epoch.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as i64)
}
