//! Senders that stand for the CoreDNS pods.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use hickory_proto::{
    op::{Message, MessageType, OpCode, Query, ResponseCode},
    rr::{Name, RecordType},
};
use tests::dnstap::{Sender, answer, data, event};
use tokio::{
    sync::Mutex,
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};

use super::{
    Size,
    cluster::{addresses, name},
};

/// How often each of them sends its gathered events.
const WRITE: Duration = Duration::from_millis(50);

/// The number among a hundred events: failures, and answers for wanted names.
const FAILURES: usize = 70;
const WANTED: usize = 5;

/// They send until they are dropped.
pub(crate) struct Senders {
    /// For the measured answers.
    own: Mutex<Sender>,
    others: JoinSet<()>,
}

impl Senders {
    /// Starts the senders, each with an address of its own.
    pub(crate) async fn start(listener: SocketAddr, size: Size) -> Self {
        let mut others = JoinSet::new();
        let writes = (1.0 / WRITE.as_secs_f64()) as usize;
        let each = (size.events / size.connections / writes).max(1);
        for number in 0..size.connections {
            let mut sender = open(listener, number).await;
            let bytes: Vec<_> = (0..100)
                .map(|write| {
                    let event = |n| frame(number * 100_000 + write * each + n, size.names);
                    (0..each).flat_map(event).collect::<Vec<u8>>()
                })
                .collect();
            others.spawn(async move {
                let mut ticks = interval(WRITE);
                ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
                for bytes in bytes.iter().cycle() {
                    ticks.tick().await;
                    sender.send(bytes).await.unwrap();
                }
            });
        }
        let own = Mutex::new(open(listener, size.connections).await);
        Self { own, others }
    }

    /// Sends a measured answer.
    pub(crate) async fn send(&self, name: &str, addresses: &[IpAddr]) {
        let frame = data(&event(answer(name, addresses, 300)));
        self.own.lock().await.send(&frame).await.unwrap();
    }

    /// Ends the senders; panics if one has failed.
    pub(crate) async fn end(mut self) {
        assert!(self.others.try_join_next().is_none(), "a sender has ended");
    }
}

async fn open(listener: SocketAddr, number: usize) -> Sender {
    let from = Ipv4Addr::new(127, 1, (number / 250) as u8, (number % 250) as u8 + 1);
    let mut sender = Sender::connect_from(from.into(), listener).await;
    sender.handshake().await;
    sender
}

fn frame(number: usize, names: usize) -> Vec<u8> {
    let kind = number * 37 % 100;
    let response = if kind < FAILURES {
        failure(&format!("n{number}.nowhere.example."))
    } else if kind < FAILURES + WANTED {
        let wanted = number * 31 % names;
        answer(&name(wanted), &addresses(wanted), 300)
    } else {
        let address = Ipv4Addr::from_bits(0x0f00_0000 + number as u32);
        answer(
            &format!("n{}.other.example.", number % 50_000),
            &[address.into()],
            300,
        )
    };
    data(&event(response))
}

fn failure(name: &str) -> Vec<u8> {
    let mut message = Message::new(1, MessageType::Response, OpCode::Query);
    message.metadata.response_code = ResponseCode::NXDomain;
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), RecordType::A));
    message.to_vec().unwrap()
}
