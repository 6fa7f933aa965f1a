//! A DNS client that queries one server, once.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use hickory_proto::{
    op::{Message, Query},
    rr::{Name, RData, RecordType},
};
use tokio::{
    net::UdpSocket,
    time::{Instant, timeout_at},
};

/// The time-out of one datagram.
const ANSWER: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub struct Reply {
    pub message: Message,
    pub at: Instant,
}

impl Reply {
    /// The addresses in the answer section, in its order.
    pub fn addresses(&self) -> Vec<IpAddr> {
        let address = |data: &RData| match data {
            RData::A(a) => Some(IpAddr::V4(a.0)),
            RData::AAAA(aaaa) => Some(IpAddr::V6(aaaa.0)),
            _ => None,
        };
        self.message
            .answers
            .iter()
            .filter_map(|record| address(&record.data))
            .collect()
    }
}

/// Sends a query over UDP. The name keeps its case.
///
/// # Errors
/// There was no reply in two seconds, or none that matches the question.
pub async fn ask(server: SocketAddr, name: &str, kind: RecordType) -> io::Result<Reply> {
    let socket = UdpSocket::bind("0.0.0.0:0").await?;
    socket.connect(server).await?;
    ask_over(&socket, name, kind).await
}

/// [`ask`] over a socket that is connected to the server. Replies to other questions are ignored.
///
/// # Errors
/// There was no reply in two seconds.
pub async fn ask_over(socket: &UdpSocket, name: &str, kind: RecordType) -> io::Result<Reply> {
    let name = Name::from_ascii(name).expect("a DNS name");
    let mut query = Message::query();
    query.metadata.recursion_desired = true;
    query.add_query(Query::query(name, kind));
    socket
        .send(&query.to_vec().map_err(io::Error::other)?)
        .await?;
    let mut buffer = vec![0; 65_535];
    let end = Instant::now() + ANSWER;
    loop {
        let length = timeout_at(end, socket.recv(&mut buffer)).await??;
        let at = Instant::now();
        let message = Message::from_vec(&buffer[..length]).map_err(io::Error::other)?;
        if message.metadata.id == query.metadata.id {
            return Ok(Reply { message, at });
        }
    }
}
